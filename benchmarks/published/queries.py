"""TPC-DS queries 3, 9, 34, 42 and 59, with parameters that our data has rows for.

Query 59 orders by all columns, so that its LIMIT has one answer.
"""

from __future__ import annotations


def _bucket(number: int, low: int) -> str:
    rows = f"FROM store_sales WHERE ss_quantity BETWEEN {low} AND {low + 19}"
    return (
        f"CASE WHEN (SELECT count(*) {rows}) > 500000 THEN (SELECT avg(ss_ext_discount_amt) {rows}) "
        f"ELSE (SELECT avg(ss_net_profit) {rows}) END bucket{number}"
    )


def _weeks(number: int, first: int) -> str:
    days = ", ".join(f"{day}_sales {day}{number}" for day in ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
    return (
        f"SELECT s_store_name name{number}, wss.d_week_seq week{number}, s_store_id store{number}, {days} "
        "FROM wss, store, date_dim d WHERE d.d_week_seq = wss.d_week_seq AND ss_store_sk = s_store_sk "
        f"AND d_month_seq BETWEEN {first} AND {first + 11}"
    )


_DAYS = ", ".join(
    f"sum(CASE WHEN d_day_name = '{day}' THEN ss_sales_price END) {day[:3].lower()}_sales"
    for day in ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
)
_RATIOS = ", ".join(f"{day}1 / {day}2" for day in ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
_FIRST_MONTH = 1185

QUERIES = {
    "q3": """
        SELECT dt.d_year, item.i_brand_id brand_id, item.i_brand brand, sum(ss_sales_price) sum_agg
        FROM date_dim dt, store_sales, item
        WHERE dt.d_date_sk = store_sales.ss_sold_date_sk AND store_sales.ss_item_sk = item.i_item_sk
          AND item.i_manufact_id = 128 AND dt.d_moy = 11
        GROUP BY dt.d_year, item.i_brand, item.i_brand_id ORDER BY dt.d_year, sum_agg DESC, brand_id LIMIT 100""",
    "q9": f"SELECT {', '.join(_bucket(n + 1, 20 * n + 1) for n in range(5))} FROM reason WHERE r_reason_sk = 1",
    "q34": """
        SELECT c_last_name, c_first_name, c_salutation, c_preferred_cust_flag, ss_ticket_number, cnt
        FROM (SELECT ss_ticket_number, ss_customer_sk, count(*) cnt
              FROM store_sales, date_dim, store, household_demographics
              WHERE store_sales.ss_sold_date_sk = date_dim.d_date_sk AND store_sales.ss_store_sk = store.s_store_sk
                AND store_sales.ss_hdemo_sk = household_demographics.hd_demo_sk
                AND (date_dim.d_dom BETWEEN 1 AND 3 OR date_dim.d_dom BETWEEN 25 AND 28)
                AND household_demographics.hd_buy_potential IN ('>10000', '5001-10000', 'Unknown')
                AND household_demographics.hd_vehicle_count > 0
                AND household_demographics.hd_dep_count / household_demographics.hd_vehicle_count > 1.2
                AND date_dim.d_year IN (1999, 2000, 2001)
                AND store.s_county IN ('Williamson County', 'Jefferson Davis Parish', 'Levy County')
              GROUP BY ss_ticket_number, ss_customer_sk) dn, customer
        WHERE ss_customer_sk = c_customer_sk AND cnt BETWEEN 15 AND 20
        ORDER BY c_last_name, c_first_name, c_salutation, c_preferred_cust_flag DESC, ss_ticket_number""",
    "q42": """
        SELECT dt.d_year, item.i_category_id, item.i_category, sum(ss_ext_sales_price)
        FROM date_dim dt, store_sales, item
        WHERE dt.d_date_sk = store_sales.ss_sold_date_sk AND store_sales.ss_item_sk = item.i_item_sk
          AND item.i_manager_id = 1 AND dt.d_moy = 11 AND dt.d_year = 2000
        GROUP BY dt.d_year, item.i_category_id, item.i_category
        ORDER BY sum(ss_ext_sales_price) DESC, dt.d_year, item.i_category_id, item.i_category LIMIT 100""",
    "q59": f"""
        WITH wss AS (SELECT d_week_seq, ss_store_sk, {_DAYS} FROM store_sales, date_dim
                     WHERE d_date_sk = ss_sold_date_sk GROUP BY d_week_seq, ss_store_sk)
        SELECT name1, store1, week1, {_RATIOS} FROM ({_weeks(1, _FIRST_MONTH)}) y, ({_weeks(2, _FIRST_MONTH + 12)}) x
        WHERE store1 = store2 AND week1 = week2 - 52 ORDER BY ALL LIMIT 100""",
}
