"""Options of the store that a table is in: never kept in a schema."""

from paimon_spark.options.option import Option, Refusal, Scope, Stage
from paimon_spark.options.option import OptionKind as K

_BY_S3 = "The store's S3 interface is used."

STORE: tuple[Option, ...] = (
    Option(
        "commit.unsafe-rename",
        K.BOOL,
        False,
        "Commit by rename on a storage that has no exclusive create. Two writers at once may lose commits.",
        scope=Scope.STORE,
        honoured=True,
    ),
    Option(
        "hadoop.*",
        K.STRING,
        None,
        "Hadoop configuration.",
        scope=Scope.STORE,
        instead="Hadoop's own files on its class path configure HDFS.",
    ),
    Option("s3.*", K.STRING, None, "Access to S3, such as `s3.endpoint`.", scope=Scope.STORE, honoured=True),
    Option("s3a.*", K.STRING, None, "Access to S3, under Hadoop's scheme.", scope=Scope.STORE, honoured=True),
    Option("fs.*", K.STRING, None, "Hadoop's `fs.s3a.*`, or an fsspec option.", scope=Scope.STORE, honoured=True),
    Option("gs.*", K.STRING, None, "Access to Google Cloud Storage.", scope=Scope.STORE, honoured=True),
    Option("azure.*", K.STRING, None, "Access to Azure storage.", scope=Scope.STORE, honoured=True),
    Option("oss.*", K.STRING, None, "Access to OSS.", scope=Scope.STORE, honoured=True),
    Option(
        "cosn.*",
        K.STRING,
        None,
        "Access to COS.",
        scope=Scope.STORE,
        refusals=(Refusal(Stage.GIVEN, "Use the store's S3 interface: s3.endpoint, s3.access-key, s3.secret-key."),),
        instead=_BY_S3,
    ),
    Option(
        "obs.*",
        K.STRING,
        None,
        "Access to OBS.",
        scope=Scope.STORE,
        refusals=(Refusal(Stage.GIVEN, "Use the store's S3 interface: s3.endpoint, s3.access-key, s3.secret-key."),),
        instead=_BY_S3,
    ),
)
