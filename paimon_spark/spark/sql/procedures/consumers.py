"""The procedures that move and delete consumers (Java: ``ResetConsumerProcedure``, ``ClearConsumersProcedure``)."""

from __future__ import annotations

from paimon_spark.maintain.expire.consumers import clear_consumers, reset_consumer
from paimon_spark.spark.sql.procedures.procedure import (
    DONE,
    LONG,
    TABLE,
    Argument,
    Arguments,
    CallContext,
    Procedure,
    Rows,
)


def _reset_consumer(context: CallContext, arguments: Arguments) -> Rows:
    reset_consumer(context.table(arguments["table"]), arguments["consumerId"], arguments["nextSnapshotId"])
    return [(True,)]


def _clear_consumers(context: CallContext, arguments: Arguments) -> Rows:
    clear_consumers(
        context.table(arguments["table"]),
        including=arguments["includingConsumers"],
        excluding=arguments["excludingConsumers"],
    )
    return [(True,)]


CONSUMER_PROCEDURES = (
    Procedure(
        "reset_consumer",
        (TABLE, Argument("consumerId", required=True), Argument("nextSnapshotId", LONG)),
        DONE,
        _reset_consumer,
        "Lets a consumer read a snapshot next; without a snapshot it is deleted.",
    ),
    Procedure(
        "clear_consumers",
        (TABLE, Argument("includingConsumers"), Argument("excludingConsumers")),
        DONE,
        _clear_consumers,
        "Deletes the consumers whose ids match a regular expression, less those that match another.",
    ),
)
