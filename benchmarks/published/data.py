"""Tables in the shape of TPC-DS, of expressions over row numbers: equal for every peer, with no data from outside.

Scale 1 has the rows of TPC-DS at 1 GB. Columns that no statement here reads have values, too: they are read and merged.
"""

from __future__ import annotations

WEB_RETURNS_ROWS = 71_763
STORE_SALES_ROWS = 2_880_404
MICRO_ROWS = 70_000_000
"""LHBench: rows of four columns in a GB."""
DATES, ITEMS, STORES, HOUSEHOLDS, CUSTOMERS = 73_049, 18_000, 12, 7_200, 100_000
_TICKET_ROWS = 16
_FIRST_DATE = 2_415_022
_SALE_DAYS = 1_823
_FIRST_SALE = 2_450_816

Ids = str
"""A relation with a column ``id``."""


def ids(first: int, last: int, parts: int = 4) -> Ids:
    """Row numbers, the last excluded."""
    return f"range({first}, {last}, 1, {parts})"


def _number(salt: str, most: int, kind: str = "INT") -> str:
    return f"CAST(pmod(xxhash64(id, '{salt}'), {most}) + 1 AS {kind})"


def _money(salt: str, most: int = 100) -> str:
    return f"CAST(pmod(xxhash64(id, '{salt}'), {most * 100}) / 100 AS DECIMAL(7,2))"


def web_returns(source: Ids, *, first_new: int = 0, salt: str = "") -> str:
    """A query of returns.

    Args:
        source: their numbers.
        first_new: is added to the order number: with more than the rows of the table they are new ones.
        salt: with another one the values are others.
    """
    sks = (
        "refunded_customer refunded_cdemo refunded_hdemo refunded_addr returning_customer returning_cdemo "
        "returning_hdemo returning_addr web_page reason"
    )
    amounts = (
        "return_amt return_tax return_amt_inc_tax fee return_ship_cost refunded_cash reversed_charge account_credit "
        "net_loss"
    )
    columns = [
        f"{_number('date' + salt, _SALE_DAYS)} wr_returned_date_sk",
        f"{_number('time' + salt, 86_400)} wr_returned_time_sk",
        "CAST(pmod(id, 7) AS BIGINT) wr_item_sk",
        *(f"{_number(name + salt, CUSTOMERS, 'BIGINT')} wr_{name}_sk" for name in sks.split()),
        f"id + {first_new} wr_order_number",
        f"{_number('quantity' + salt, 100)} wr_return_quantity",
        *(f"{_money(name + salt)} wr_{name}" for name in amounts.split()),
    ]
    return f"SELECT {', '.join(columns)} FROM {source}"


def store_sales(source: Ids, salt: str = "") -> str:
    """A query of sales: tickets of 16 items."""
    ticket = f"(id DIV {_TICKET_ROWS})"
    sks = {"time": 86_400, "cdemo": 1_920_800, "addr": 50_000, "promo": 300}
    amounts = (
        "wholesale_cost list_price sales_price ext_discount_amt ext_sales_price ext_wholesale_cost ext_list_price "
        "ext_tax coupon_amt net_paid net_paid_inc_tax net_profit"
    )
    item = ITEMS // _TICKET_ROWS
    columns = [
        f"CAST({_FIRST_SALE} + pmod(xxhash64({ticket}, 'date'), {_SALE_DAYS}) AS INT) ss_sold_date_sk",
        f"CAST(pmod(id, {_TICKET_ROWS}) * {item} + pmod(xxhash64({ticket}, 'i'), {item}) + 1 AS BIGINT) ss_item_sk",
        f"CAST(pmod(xxhash64({ticket}, 'customer'), {CUSTOMERS}) + 1 AS BIGINT) ss_customer_sk",
        f"CAST(pmod(xxhash64({ticket}, 'household'), {HOUSEHOLDS}) + 1 AS BIGINT) ss_hdemo_sk",
        f"CAST(pmod(xxhash64({ticket}, 'store'), {STORES}) + 1 AS BIGINT) ss_store_sk",
        *(f"{_number(name + salt, most, 'BIGINT')} ss_{name}_sk" for name, most in sks.items()),
        f"CAST({ticket} + 1 AS BIGINT) ss_ticket_number",
        f"{_number('quantity' + salt, 100)} ss_quantity",
        *(f"{_money(name + salt)} ss_{name}" for name in amounts.split()),
    ]
    return f"SELECT {', '.join(columns)} FROM {source}"


def dimensions() -> dict[str, str]:
    """The queries of the small tables, by name."""
    counties = "array('Williamson County', 'Jefferson Davis Parish', 'Levy County', 'Coal County')"
    buys = "array('>10000', '5001-10000', '1001-5000', '501-1000', '0-500', 'Unknown')"
    categories = "array('Books', 'Children', 'Electronics', 'Home', 'Jewelry', 'Men', 'Music', 'Shoes', 'Sports')"
    day = "date_add(DATE'1900-01-02', CAST(id AS INT))"
    return {
        "date_dim": f"SELECT CAST(id + {_FIRST_DATE} AS INT) d_date_sk, {day} d_date, CAST(id DIV 7 + 1 AS INT) "
        f"d_week_seq, (year({day}) - 1900) * 12 + month({day}) - 1 d_month_seq, year({day}) d_year, month({day}) d_moy,"
        f" day({day}) d_dom, date_format({day}, 'EEEE') d_day_name FROM {ids(0, DATES)}",
        "item": f"SELECT id + 1 i_item_sk, {_number('brand', 1000)} i_brand_id, concat('brand ', "
        f"{_number('brand', 1000)}) i_brand, {_number('maker', 1000)} i_manufact_id, {_number('manager', 100)} "
        f"i_manager_id, CAST(pmod(id, 9) + 1 AS INT) i_category_id, {categories}[CAST(pmod(id, 9) AS INT)] i_category "
        f"FROM {ids(0, ITEMS)}",
        "store": f"SELECT id + 1 s_store_sk, concat('store ', id DIV 2) s_store_id, concat('name ', id) s_store_name, "
        f"{counties}[CAST(pmod(id, 4) AS INT)] s_county FROM {ids(0, STORES)}",
        "household_demographics": f"SELECT id + 1 hd_demo_sk, {buys}[CAST(pmod(id, 6) AS INT)] hd_buy_potential, "
        f"CAST(pmod(id, 6) - 1 AS INT) hd_vehicle_count, CAST(pmod(id, 10) AS INT) hd_dep_count "
        f"FROM {ids(0, HOUSEHOLDS)}",
        "customer": f"SELECT id + 1 c_customer_sk, concat('last ', {_number('last', 5000)}) c_last_name, concat("
        f"'first ', {_number('first', 5000)}) c_first_name, 'Dr.' c_salutation, if(pmod(id, 2) = 0, 'Y', 'N') "
        f"c_preferred_cust_flag FROM {ids(0, CUSTOMERS)}",
        "reason": f"SELECT id + 1 r_reason_sk, concat('reason ', id) r_reason_desc FROM {ids(0, 35)}",
    }


def micro(source: Ids, salt: int = 0) -> str:
    """LHBench's four columns."""
    return (
        f"SELECT id key, id * 7.1D + 13.4D + {salt} value, CAST(id * 91 AS STRING) value2, id % 1000 partition "
        f"FROM {source}"
    )
