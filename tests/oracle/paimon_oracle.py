"""Apache Paimon (Java) as an oracle, driven from Python over py4j; rows go in and out as pyarrow.Table.

    from paimon_oracle import PaimonOracle
    with PaimonOracle('my_warehouse') as o:
        o.create('db.t', [('id', 'INT NOT NULL'), ('v', 'STRING')], pk=['id'], options={'bucket': '2'})
        o.write('db.t', [(1, 'a'), (2, 'b')])
        o.write('db.t', [(1, None)], kinds='-D')
        o.read('db.t')                                       # pyarrow.Table
        o.read('db.t', options={'scan.snapshot-id': 1}, columns=['v'])
        o.read('db.t$audit_log', options={'incremental-between': '1,2'})
        o.compact('db.t'); o.files('db.t'); o.stream('db.t')

README.md tells the rest. Settings: PAIMON_ORACLE_VERSION (1.4.2), PAIMON_ORACLE_CACHE (~/.cache/paimon-oracle),
PAIMON_ORACLE_JAR (a paimon-bundle jar, instead of Maven), PAIMON_ORACLE_MVN_ARGS, PAIMON_ORACLE_JAVA_OPTS.
"""

import contextlib
import glob
import hashlib
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import uuid

import pyarrow as pa

DEFAULT_VERSION = "1.4.2"
KIND = "_kind"
KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
BATCH = -1  # commit identifier that means "a batch commit"
HERE = os.path.dirname(os.path.abspath(__file__))
_SPARK_JARS = (
    "arrow-format",
    "arrow-memory-core",
    "arrow-memory-netty",
    "arrow-memory-netty-buffer-patch",
    "arrow-vector",
    "flatbuffers-java",
    "hadoop-client-api",
    "hadoop-client-runtime",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jackson-datatype-jsr310",
    "jcl-over-slf4j",
    "netty-buffer",
    "netty-common",
    "py4j",
    "rocksdbjni",
    "slf4j-api",
    "snappy-java",
)


class PaimonJavaError(Exception):
    """An exception thrown in Java.

    java_class and message are the outermost's, chain lists (class, message) down to the root.
    """

    def __init__(self, chain, trace):
        self.chain = chain
        self.java_class, self.message = chain[0]
        self.root_class, self.root_message = chain[-1]
        self.trace = trace
        super().__init__(" <- ".join("{}: {}".format(*c) for c in chain))


# -------------------------------------------------------------------------------------------------- jars and classes
def cache_dir():
    return os.environ.get("PAIMON_ORACLE_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "paimon-oracle")


def bundle_jar(version=None):
    """Path of paimon-bundle-<version>.jar, copied from Maven Central once."""
    if os.environ.get("PAIMON_ORACLE_JAR"):
        return os.environ["PAIMON_ORACLE_JAR"]
    version = version or os.environ.get("PAIMON_ORACLE_VERSION", DEFAULT_VERSION)
    jar = os.path.join(cache_dir(), "jars", f"paimon-bundle-{version}.jar")
    if not os.path.exists(jar):
        tmp = jar + f".{uuid.uuid4().hex[:8]}.d"
        os.makedirs(tmp)
        try:
            cmd = [
                "mvn",
                "-B",
                "-ntp",
                "-q",
                *shlex.split(os.environ.get("PAIMON_ORACLE_MVN_ARGS", "")),
                "dependency:copy",
                f"-Dartifact=org.apache.paimon:paimon-bundle:{version}",
                "-DoutputDirectory=" + tmp,
            ]
            r = subprocess.run(cmd, cwd=tmp, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            got = glob.glob(os.path.join(tmp, "*.jar"))
            if r.returncode or not got:
                said = re.sub(r"\x1b\[[\d;]*m", "", r.stdout).splitlines()
                error = next((line for line in said if line.startswith("[ERROR]")), "it says nothing")
                raise RuntimeError(f"Maven cannot get paimon-bundle {version}: {error.removeprefix('[ERROR] ')}")
            os.replace(got[0], jar)
        finally:
            shutil.rmtree(tmp, ignore_errors=True)
    return jar


def _spark_jars():
    spec = importlib.util.find_spec("pyspark")  # found, not imported: that would load pandas
    if spec is None and not os.environ.get("SPARK_HOME"):
        raise RuntimeError("the oracle takes Arrow, Hadoop and py4j from the jars of pyspark, which is not installed")
    folder = os.path.join(os.path.dirname(spec.origin) if spec else os.environ["SPARK_HOME"], "jars")
    found = []
    for n in _SPARK_JARS:
        hits = list(
            glob.glob(os.path.join(folder, n + "-[0-9]*.jar")) + glob.glob(os.path.join(folder, n + "[0-9]*.jar"))
        )
        if not hits and n not in ("rocksdbjni", "jcl-over-slf4j", "arrow-memory-netty-buffer-patch", "snappy-java"):
            raise RuntimeError(f"pyspark's jars folder {folder} has no {n}")
        found += hits[:1]
    return found


def _classes(jars):
    srcs = [os.path.join(HERE, f"PaimonOracle{part}.java") for part in ("", "Extras", "Views", "Functions")]
    h = hashlib.sha256("\n".join(os.path.basename(j) for j in jars).encode())
    for s in srcs:
        with open(s, "rb") as f:
            h.update(f.read())
    out = os.path.join(cache_dir(), "classes", h.hexdigest()[:16])
    if not os.path.exists(os.path.join(out, "done")):
        tmp = out + "." + uuid.uuid4().hex[:8]
        os.makedirs(tmp)
        base = ["javac", "-proc:none", "-nowarn", "-d", tmp, "-cp", os.pathsep.join([*jars, tmp])]
        r = subprocess.run(base + srcs, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if r.returncode:  # an older Paimon: without what does not compile
            for only in ([srcs[0]], srcs[1:2], srcs[2:3], srcs[3:]):
                r = subprocess.run(
                    base + only, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
                if r.returncode and only == [srcs[0]]:
                    shutil.rmtree(tmp, ignore_errors=True)
                    raise RuntimeError("javac:\n" + r.stdout[-4000:])
        open(os.path.join(tmp, "done"), "w").close()
        try:
            os.replace(tmp, out)
        except OSError:  # another process was first
            shutil.rmtree(tmp, ignore_errors=True)
    return out


# -------------------------------------------------------------------------------------------------- types
def type_json(sql):
    """'INT NOT NULL', 'ARRAY<INT>', 'MAP<STRING, ROW<a INT, b STRING>>' -> what Paimon's schema JSON holds for it."""
    s = sql.strip()
    if s.startswith("{"):
        return json.loads(s)
    ids = iter(range(1, 1 << 20))
    t, rest = _type(s, ids)
    if rest.strip():
        raise ValueError(f"type {sql!r}: {rest!r} left over")
    return t


def _type(s, ids):
    s = s.lstrip()
    word = ""
    while len(word) < len(s) and (s[len(word)].isalnum() or s[len(word)] == "_"):
        word += s[len(word)]
    head, rest = word.upper(), s[len(word) :]
    if head in ("ARRAY", "MAP", "MULTISET", "ROW", "VECTOR") and rest.lstrip().startswith("<"):
        rest = rest.lstrip()[1:]
        out = {"type": head}
        if head == "ROW":
            out["fields"] = []
            while True:
                rest = rest.lstrip()
                if rest.startswith("`"):
                    name, rest = rest[1:].split("`", 1)
                else:
                    name, rest = rest.split(None, 1)
                t, rest = _type(rest, ids)
                out["fields"].append({"id": next(ids), "name": name, "type": t})
                rest = rest.lstrip()
                if not rest.startswith(","):
                    break
                rest = rest[1:]
        elif head == "MAP":
            out["key"], rest = _type(rest, ids)
            rest = rest.lstrip()[1:]
            out["value"], rest = _type(rest, ids)
        else:
            out["element"], rest = _type(rest, ids)
        if head == "VECTOR":
            length, _, rest = rest.lstrip()[1:].partition(">")
            out["length"], rest = int(length), ">" + rest
        rest = rest.lstrip()[1:]
        if rest.lstrip().upper().startswith("NOT NULL"):
            out["type"] += " NOT NULL"
            rest = rest.lstrip()[8:]
        return out, rest
    i, depth = 0, 0
    while i < len(s) and not (depth == 0 and s[i] in ",>"):
        depth += (s[i] == "(") - (s[i] == ")")
        i += 1
    return s[:i].strip(), s[i:]


def _type_arg(sql):
    t = type_json(sql)
    return t if isinstance(t, str) else json.dumps(t)


def _nullable(t):
    """The same Arrow type without any NOT NULL (so that Java, not pyarrow, judges nulls)."""

    def f(x):
        return pa.field(x.name, _nullable(x.type))

    if pa.types.is_struct(t):
        return pa.struct([f(t.field(i)) for i in range(t.num_fields)])
    if pa.types.is_map(t):
        return pa.map_(_nullable(t.key_type), _nullable(t.item_type))
    if pa.types.is_list(t):
        return pa.list_(f(t.value_field))
    return t


# -------------------------------------------------------------------------------------------------- the oracle
class PaimonOracle:
    def __init__(self, warehouse, version=None, heap="1g", timezone="UTC", jars=(), options=None, bundle=None):
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        self._numbers = itertools.count()
        self.version = version or os.environ.get("PAIMON_ORACLE_VERSION", DEFAULT_VERSION)
        is_name = (options or {}).get("metastore") == "rest"
        self.warehouse = warehouse if is_name else os.path.abspath(warehouse)
        self.tmp = tempfile.mkdtemp(prefix="paimon-oracle-")
        spark = _spark_jars()
        cp = [bundle or bundle_jar(version), *spark, *list(jars)]
        cp = [_classes(cp), *cp]
        py4j_jar = next(j for j in spark if os.path.basename(j).startswith("py4j"))
        opts = [
            "-Xmx" + heap,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Duser.timezone=" + timezone,
            "-Dfile.encoding=UTF-8",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Darrow.memory.debug.allocator=false",
            "-Djava.io.tmpdir=" + self.tmp,
        ]
        opts += [f"--add-opens=java.base/{p}=ALL-UNNAMED" for p in ("java.nio", "sun.nio.ch", "java.lang", "java.util")]
        opts += shlex.split(os.environ.get("PAIMON_ORACLE_JAVA_OPTS", ""))
        self._log = open(os.path.join(self.tmp, "stderr"), "w")  # noqa: SIM115 - the JVM's, closed with it
        port, token, self.proc = launch_gateway(
            jarpath=py4j_jar,
            classpath=os.pathsep.join(cp),
            javaopts=opts,
            die_on_exit=True,
            return_proc=True,
            enable_auth=True,
            redirect_stdout=self._log,
            redirect_stderr=self._log,
        )
        self.gw = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
        self.jvm = self.gw.jvm
        try:
            self.java = self._do(self.jvm.PaimonOracle, self.warehouse, self.tmp, dict(options or {}))
            self.extras, self._views, self._functions = (
                getattr(self.jvm, part)(self.java) if os.path.exists(os.path.join(cp[0], f"{part}.class")) else None
                for part in ("PaimonOracleExtras", "PaimonOracleViews", "PaimonOracleFunctions")
            )
        except BaseException:
            self.close()
            raise
        self._schemas = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """Ends the JVM and removes the oracle's temporary folder."""
        if self.proc is None:
            return
        with contextlib.suppress(Exception):
            self.gw.shutdown()
        proc, self.proc = self.proc, None
        if proc.stdin:
            proc.stdin.close()  # the JVM ends with it, unless a process forked meanwhile holds it open too
        try:
            proc.wait(10)
        except subprocess.TimeoutExpired:
            proc.kill()
            proc.wait()
        if proc.stdout:
            proc.stdout.close()  # last: this waits for whoever reads it, and so for the end of the JVM
        self._log.close()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def _do(self, fn, *args):
        from py4j.protocol import Py4JJavaError

        try:
            return fn(*args)
        except Py4JJavaError as e:
            chain, x, seen = [], e.java_exception, 0
            while x is not None and seen < 20:
                chain.append((x.getClass().getName(), x.getMessage()))
                x, seen = x.getCause(), seen + 1
            raise PaimonJavaError(chain, str(e)) from None

    def _x(self, method, *args):
        if self.extras is None:
            raise NotImplementedError(f"{method} needs Paimon 1.x, this is {self.version}")
        return self._do(getattr(self.extras, method), *args)

    def create_view(self, name, schema):
        """A view of what Java's ViewSchema is as JSON: fields, query, dialects, comment, options."""
        self._do(self._views.createView, name, json.dumps(schema))

    def view(self, name):
        """What Java's ViewSchema of a view is as JSON."""
        return json.loads(self._do(self._views.view, name))

    def views(self, database):
        """Names of the views of a database, sorted."""
        return sorted(self._do(self._views.views, database))

    def rewritten_view(self, text):
        """The text of a view that a JDBC catalog keeps, as Java reads it and writes it again."""
        return self._do(self._views.rewritten, text)

    def drop_view(self, name):
        self._do(self._views.dropView, name)

    def rename_view(self, name, to):
        self._do(self._views.renameView, name, to)

    def create_function(self, name, function):
        """A function of what Java's CreateFunctionRequest is as JSON."""
        self._do(self._functions.createFunction, name, json.dumps(function))

    def function(self, name):
        """What Java's CreateFunctionRequest of a function is as JSON."""
        return json.loads(self._do(self._functions.function, name))

    def functions(self, database):
        """Names of the functions of a database, sorted."""
        return sorted(self._do(self._functions.functions, database))

    def drop_function(self, name):
        self._do(self._functions.dropFunction, name)

    def _path(self):
        return os.path.join(self.tmp, uuid.uuid4().hex)

    def _load(self, path, unlink=True):
        with pa.OSFile(path) as f:
            t = pa.ipc.open_stream(f).read_all()
        if unlink:
            os.unlink(path)
        return t

    def _store(self, table):
        path = self._path()
        with pa.OSFile(path, "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
            w.write_table(table)
        return path

    @staticmethod
    def _opts(options):
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in (options or {}).items()}

    # ---- tables
    def fresh_name(self, database):
        """A table name that no test of this run has: modules that are imported twice share it too."""
        return f"{database}.t{next(self._numbers)}"

    def create(self, name, columns, pk=(), partition=(), options=None, comment=None):
        """columns: [(name, SQL type)]. The database is made when missing."""
        self._do(
            self.java.create,
            name,
            [c[0] for c in columns],
            [_type_arg(c[1]) for c in columns],
            list(pk),
            list(partition),
            self._opts(options),
            comment,
        )
        return self

    def drop(self, name):
        self._do(self.java.drop, name)

    def alter(self, name, *changes):
        """Changes a table's schema; all changes become one schema. Nested columns as 'a.b'.

        ('add', col, type[, 'first' | 'after', col]) ('drop', col) ('rename', old, new) ('type', col, type)
        ('nullable', col, 'true') ('default', col, value) ('comment', col, text)
        ('move', col, 'first' | 'last' | 'after' | 'before'[, col]) ('set', k, v) ('unset', k)
        """
        out = []
        for c in changes:
            c = [str(x) for x in c]
            if c[0] in ("add", "type"):
                c[2] = _type_arg(c[2])
            out.append(c)
        self._do(self.java.alter, name, out)

    def describe(self, name, options=None):
        return json.loads(self._do(self.java.describe, name, self._opts(options)))

    def arrow_schema(self, name, options=None):
        """The Arrow schema that rows of the table are carried in."""
        path = self._path()
        self._do(self.java.arrowSchema, name, self._opts(options), path)
        return self._load(path).schema

    def location(self, name):
        return self.describe(name)["location"].replace("file:", "", 1)

    # ---- rows in
    def table_of(self, name, rows, kinds=None, options=None):
        """A pyarrow.Table for write from tuples or dicts; kinds: one of '+I' '-U' '+U' '-D' for all, or one per row."""
        sch = pa.schema([pa.field(f.name, _nullable(f.type)) for f in self.arrow_schema(name, options)])
        dicts = [r if isinstance(r, dict) else dict(zip(sch.names, r, strict=False)) for r in rows]
        t = pa.Table.from_pylist([{n: d.get(n) for n in sch.names} for d in dicts], schema=sch)
        if kinds is not None:
            ks = [kinds] * len(dicts) if isinstance(kinds, (str, int)) else list(kinds)
            t = t.append_column(KIND, pa.array([KINDS.get(k, k) for k in ks], pa.int8()))
        return t

    def _input(self, name, data, kinds, options):
        if not isinstance(data, pa.Table):
            return self.table_of(name, data, kinds, options)
        kind = None
        if KIND in data.column_names:
            col = data[KIND]
            kind = (
                pa.array([KINDS[k] for k in col.to_pylist()], pa.int8())
                if pa.types.is_string(col.type)
                else col.cast(pa.int8())
            )
            data = data.drop_columns([KIND])
        sch = self.arrow_schema(name, options)
        data = data.select(sch.names).cast(pa.schema([pa.field(f.name, _nullable(f.type)) for f in sch]))
        return data if kind is None else data.append_column(KIND, kind)

    def prepare(self, name, data, kinds=None, overwrite=False, options=None, user=None, commit_id=BATCH):
        """Writes files and returns the commit messages for commit(); nothing is visible yet."""
        path = self._store(self._input(name, data, kinds, None))
        try:
            return self._do(
                self.java.prepare, name, self._opts(options), path, overwrite, user or uuid.uuid4().hex, commit_id
            )
        finally:
            os.unlink(path)

    def commit(
        self,
        name,
        messages,
        overwrite=None,
        options=None,
        user=None,
        commit_id=BATCH,
        watermark=None,
        ignore_empty=None,
    ):
        """Commits messages; returns the ids of the snapshots that this made."""
        before = self.latest(name) or 0
        self._do(
            self.java.commit,
            name,
            self._opts(options),
            messages,
            None if overwrite is None else self._opts(overwrite),
            user or uuid.uuid4().hex,
            commit_id,
            -(1 << 63) if watermark is None else watermark,
            commit_id == BATCH if ignore_empty is None else ignore_empty,
        )
        return list(range(before + 1, (self.latest(name) or 0) + 1))

    def write(self, name, data, kinds=None, overwrite=None, options=None, user=None, commit_id=BATCH, watermark=None):
        """One commit. data: pyarrow.Table (columns of the table, optional trailing `_kind`) or rows (tuples, dicts).

        overwrite: {} for the whole table (or dynamic, by option dynamic-partition-overwrite), {'dt': '1'} for a static
        partition. options: dynamic options of the writer ('write-only': True keeps level 0 files as they are). Returns
        snapshot ids.
        """
        user = user or uuid.uuid4().hex
        msgs = self.prepare(name, data, kinds, overwrite is not None, options, user, commit_id)
        return self.commit(name, msgs, overwrite, options, user, commit_id, watermark)

    def truncate(self, name):
        self._do(self.java.truncate, name)

    def compact(self, name, full=True, options=None, user=None, commit_id=BATCH):
        """Compacts every bucket that has files, or (append table without buckets) what the coordinator picks; commits.

        Primary key tables: full=False is what a writer would do by itself. Level 0 files of deletion-vector and
        first-row tables are found too. Returns the new snapshot ids ([] when there was nothing to do).
        """
        user = user or uuid.uuid4().hex
        opts = dict({"write-only": "false"}, **(options or {}))
        mode = self.describe(name)["bucket_mode"]
        if mode in ("BUCKET_UNAWARE", "UNAWARE"):
            msgs = self._x("compactAppend", name, self._opts(opts), user)
        else:
            msgs = self._do(self.java.compactBuckets, name, self._opts(opts), full, user, commit_id)
        if not msgs:
            return []
        return self.commit(name, msgs, None, opts, user, commit_id, ignore_empty=True)

    def delete_positions(self, name, positions, options=None, user=None):
        """Append table with deletion-vectors.enabled: {file: [positions]} become deletion vectors, one commit."""
        msgs = self._x("deletePositions", name, self._opts(options), {k: list(v) for k, v in positions.items()})
        return self.commit(name, msgs, None, options, user)

    def delete_where(self, name, keep_out, options=None):
        """Append table with deletion vectors: deletes the rows for which keep_out(row dict) is true."""
        hit = {}
        for r in self.read_positions(name).to_pylist():
            if keep_out(r):
                hit.setdefault(r["_file"], []).append(r["_pos"])
        return self.delete_positions(name, hit, options) if hit else []

    def write_columns(self, name, columns, rows, first_row_id, options=None, user=None):
        """Append table with data-evolution.enabled: these columns over existing rows, from row id first_row_id on."""
        user = user or uuid.uuid4().hex
        sch = pa.schema([pa.field(n, _nullable(self.arrow_schema(name).field(n).type)) for n in columns])
        path = self._store(pa.Table.from_pylist([dict(zip(columns, r, strict=False)) for r in rows], schema=sch))
        try:
            msgs = self._x("prepareColumns", name, self._opts(options), list(columns), path, first_row_id, user)
        finally:
            os.unlink(path)
        return self.commit(name, msgs, None, options, user)

    # ---- rows out
    def read(self, name, columns=None, options=None, filter=None, exact=True, kinds=False):  # noqa: A002
        """Batch scan -> pyarrow.Table in Java's order.

        name: 'db.t', 'db.t$audit_log', 'db.t$branch_b', or a table directory. options: dynamic ones (scan.snapshot-id,
        scan.tag-name, scan.timestamp-millis, incremental-between, scan.mode, ...). filter: [(column, op, value)] ANDed;
        op: = != < <= > >= in startswith null notnull. exact=False: pruning only, rows that do not match may come.
        kinds=True adds a string column `_kind`.
        """
        out = self._path()
        spec, lits, wanted = [], None, columns
        if filter:
            if columns is not None:  # Java judges the filter on the projected row
                columns = list(columns) + [c for c in dict.fromkeys(f[0] for f in filter) if c not in columns]
            sch = self.arrow_schema(name, options)
            cols, height = [], 1
            for i, f in enumerate(filter):
                vals = [] if f[1] in ("null", "notnull") else list(f[2]) if f[1] == "in" else [f[2]]
                spec.append([f[0], f[1], str(len(vals))])
                cols.append((pa.field(f"f{i}", _nullable(sch.field(f[0]).type)), vals))
                height = max(height, len(vals))
            lits = self._store(
                pa.Table.from_arrays(
                    [pa.array(v + [None] * (height - len(v)), f.type) for f, v in cols],
                    schema=pa.schema([f for f, _ in cols]),
                )
            )
        try:
            self._do(
                self.java.read,
                name,
                self._opts(options),
                None if columns is None else list(columns),
                spec,
                lits,
                exact,
                kinds,
                out,
            )
        finally:
            if lits:
                os.unlink(lits)
        t = self._load(out)
        return (
            t if wanted is None or len(wanted) == len(columns) else t.select(list(wanted) + ([KIND] if kinds else []))
        )

    def rows(self, name, columns=None, options=None, kinds=False):
        """read() as sorted tuples (kind last), for comparing."""
        t = self.read(name, columns, options, kinds=kinds)
        return sorted((tuple(d.values()) for d in t.to_pylist()), key=repr)

    def read_positions(self, name, options=None):
        """Append table: rows with `_file` (name) and `_pos` (position in the file), deletion vectors applied."""
        out = self._path()
        self._x("readPositions", name, self._opts(options), out)
        return self._load(out)

    def plan(self, name, options=None):
        """The batch scan's splits: [{snapshot, bucket, raw, files: [[name, level, rows]], deletion_files}]."""
        return json.loads(self._do(self.java.plan, name, self._opts(options)))

    def stream(self, name, options=None, columns=None, max_plans=1000):
        """What a streaming read gives until it has caught up: [(snapshot id, kind, row dict)]."""
        out = []
        for snap, _, t in self.stream_tables(name, options, columns, max_plans):
            for d in t.to_pylist():
                out.append((snap, d.pop(KIND), d))
        return out

    def stream_tables(self, name, options=None, columns=None, max_plans=1000):
        """The same as [(snapshot id of the plan, next snapshot id, pyarrow.Table with `_kind`)]."""
        out = self._path()
        plans = json.loads(self._do(self.java.stream, name, self._opts(options), columns, max_plans, out))
        return [(p["snapshot"], p["next"], self._load(f"{out}.{i}")) for i, p in enumerate(plans)]

    # ---- metadata
    def files(self, name, options=None, snapshot=None):
        """Live files of all levels (as $files does not always show): partition, bucket, file, level, rows, keys..."""
        return json.loads(self._do(self.java.files, name, self._opts(options), snapshot))

    def levels(self, name):
        """{(partition values..., bucket): {level: file count}}"""
        out = {}
        for f in self.files(name):
            d = out.setdefault((*tuple(f["partition"].values()), f["bucket"]), {})
            d[f["level"]] = d.get(f["level"], 0) + 1
        return out

    def system(self, name, system, options=None):
        return self.read(f"{name}${system}", options=options).to_pylist()

    def snapshots(self, name, options=None):
        return [int(x) for x in self._do(self.java.snapshots, name, self._opts(options))]

    def latest(self, name):
        s = self.snapshots(name)
        return s[-1] if s else None

    def snapshot(self, name, id, options=None):  # noqa: A002
        return json.loads(self._do(self.java.snapshotJson, name, self._opts(options), id))

    def create_tag(self, name, tag, snapshot=None, retained=None):
        """retained: ISO duration such as 'P1D'."""
        self._do(self.java.createTag, name, tag, snapshot, retained)

    def delete_tag(self, name, tag):
        self._do(self.java.deleteTag, name, tag)

    def rename_tag(self, name, old, new):
        self._do(self.java.renameTag, name, old, new)

    def expire_tags(self, name):
        return [str(x) for x in self._x("expireTags", name)]

    def create_branch(self, name, branch, tag=None):
        self._do(self.java.createBranch, name, branch, tag)

    def delete_branch(self, name, branch):
        self._do(self.java.deleteBranch, name, branch)

    def rename_branch(self, name, old, new):
        self._x("renameBranch", name, old, new)

    def fast_forward(self, name, branch):
        self._do(self.java.fastForward, name, branch)

    def rollback(self, name, snapshot=None, tag=None):
        self._do(self.java.rollback, name, tag, snapshot)

    def expire_snapshots(
        self, name, retain_max=None, retain_min=None, older_than_ms=None, max_deletes=None, options=None
    ):
        return self._x("expireSnapshots", name, self._opts(options), retain_max, retain_min, older_than_ms, max_deletes)

    def compact_manifests(self, name):
        self._x("compactManifests", name)

    # ---- hashing
    def _binary(self, types, values, buckets, function):
        path = self._path()
        self._do(self.jvm.PaimonOracle.parseType, "INT")
        args = [_type_arg(t) for t in types]
        self._do(self.java.arrowSchemaOf, args, path)
        sch = [pa.field(f.name, _nullable(f.type)) for f in self._load(path).schema]
        path = self._store(
            pa.Table.from_arrays(
                [pa.array([v], f.type) for f, v in zip(sch, values, strict=False)], schema=pa.schema(sch)
            )
        )
        try:
            return list(self._do(self.java.binaryRow, args, path, buckets, function))
        finally:
            os.unlink(path)

    def binary_row_hex(self, types, values):
        """Paimon's BinaryRow bytes (no length prefix) of one row as hex, as codegen makes it."""
        r = self._binary(types, values, 0, None)
        return r[3] or r[2]

    def binary_row_hex_serializer(self, types, values):
        """The same by InternalRowSerializer.toBinaryRow."""
        return self._binary(types, values, 0, None)[2]

    def row_hash(self, types, values):
        """BinaryRow.hashCode: a signed 32-bit int (what the dynamic-bucket hash index stores)."""
        return int(self._binary(types, values, 0, None)[0])

    def bucket_of(self, types, values, num_buckets, function="default"):
        """Bucket of a row whose bucket key has these types and values; function: default | mod | hive."""
        return int(self._binary(types, values, num_buckets, function)[1])


def bucket_of(types, values, num_buckets, function="default", oracle=None):
    """Module-level form: starts an oracle (slow) unless one is given."""
    if oracle is not None:
        return oracle.bucket_of(types, values, num_buckets, function)
    with tempfile.TemporaryDirectory() as d, PaimonOracle(d) as o:
        return o.bucket_of(types, values, num_buckets, function)


def binary_row_hex(types, values, oracle=None):
    if oracle is not None:
        return oracle.binary_row_hex(types, values)
    with tempfile.TemporaryDirectory() as d, PaimonOracle(d) as o:
        return o.binary_row_hex(types, values)
