"""Java classes of this package: sources under `java/`, compiled in the JVM of the driver by Janino, a part of Spark.

Each class is compiled when it is first loaded, once in a JVM; the next processes find it compiled.
Nothing of these classes may travel to executors.

Compiled classes of this package that are kept between processes: a file for each Spark, Java and package.

It lies in ``$PAIMON_SPARK_CACHE``, else in ``paimon_spark`` of the user's directory of caches; an empty variable lets
nothing be kept. Only a directory is used that is the user's own and that nobody else can write to, for what is read
becomes code of the driver. A file that cannot be read or written is left alone: the classes are compiled.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

VARIABLE = "PAIMON_SPARK_CACHE"
_MOST_FILES = 8
_ZIP = ".zip"


def cache_folder() -> Path | None:
    """Return the directory, which is made; None where there can be none that is only the user's."""
    given = os.environ.get(VARIABLE)
    if given == "":
        return None
    try:
        folder = (
            Path(given)
            if given
            else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / __package__.partition(".")[0]
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):  # there is no home
        return None
    is_own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
    return folder if is_own else None


def cache_file(sources: Mapping[str, str], class_path: str, versions: Iterable[str]) -> Path | None:
    """Return the file for some sources in one JVM, whether it is there or not; None where nothing is kept.

    Args:
        sources: of which the classes are compiled.
        class_path: of the JVM: files of another size or time are another Spark, whose classes lack other members.
        versions: what else tells JVMs apart.
    """
    folder = cache_folder()
    if folder is None:
        return None
    digest = hashlib.sha256()
    for part in (*versions, *(text for item in sorted(sources.items()) for text in item)):
        digest.update(f"{len(part)}:{part}".encode())
    for path in class_path.split(os.pathsep):
        with suppress(OSError):
            found = os.stat(path)
            digest.update(f"{path}:{found.st_size}:{found.st_mtime_ns}".encode())
    return folder / f"{digest.hexdigest()}{_ZIP}"


def read_classes(file: Path) -> dict[str, bytes]:
    """Return the class files by name; none where the file is not there or broken."""
    try:
        with zipfile.ZipFile(file) as kept:
            return {name: kept.read(name) for name in kept.namelist()}  # checks each sum
    except (OSError, zipfile.BadZipFile, EOFError, ValueError):
        return {}


def write_classes(file: Path, classes: Mapping[str, bytes]) -> None:
    """Let a file hold these class files, for others at once; the oldest files of the directory go."""
    with suppress(OSError):
        with NamedTemporaryFile(dir=file.parent, suffix=".new", delete=False) as made:
            try:
                with zipfile.ZipFile(made, "w") as kept:
                    for name, data in classes.items():
                        kept.writestr(name, data)
                made.close()
                os.replace(made.name, file)
            finally:
                with suppress(OSError):
                    os.unlink(made.name)
        files = sorted(file.parent.glob(f"*{_ZIP}"), key=lambda path: path.stat().st_mtime)
        for old in files[:-_MOST_FILES]:
            old.unlink()


_FOLDER = "java"
_SUFFIX = ".java"
_SEPARATOR = "/"
_NEWER = 1  # milliseconds: sources have the time 0


class JavaSources:
    """The compiled classes of one JVM."""

    def __init__(self, gateway: Gateway) -> None:
        jvm = gateway.jvm
        resources = jvm.org.codehaus.commons.compiler.util.resource
        texts = sources()
        self._finder = resources.MapResourceFinder(
            gateway.bytes_map({name + _SUFFIX: text.encode() for name, text in texts.items()})
        )
        java, java_string = jvm.java.lang.System, jvm.java.lang.String
        versions = (gateway.context.version, java.getProperty("java.vm.version"))
        self._file = cache_file(texts, java.getProperty("java.class.path"), versions)
        self._kept = read_classes(self._file) if self._file else {}
        kept = {
            file: data for file, data in self._kept.items() if _source_of(file) in texts and not file.endswith(_SUFFIX)
        }
        self._compiled = resources.MapResourceFinder(gateway.bytes_map(kept))
        self._compiled.setLastModified(_NEWER)
        self._made = resources.MapResourceCreator()
        self._made_files = self._made.getMap()
        self._made_count = 0
        self._new: dict[str, bytes] = {}
        self._generated: dict[str, str] = {}
        self._join = java_string.join
        parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._loader = jvm.org.codehaus.janino.CachingJavaSourceClassLoader(
            parent, self._finder, None, self._compiled, self._made
        )
        self._classes: dict[str, JavaObject] = {}
        self.shared: dict[str, JavaObject] = {}
        """Objects without state, by their classes."""

    def load(self, name: str, generated: str | None = None) -> JavaObject:
        """Return the ``java.lang.Class`` of a class.

        Args:
            name: the class; its source is `java/<name>.java`.
            generated: the source of a class that has no file.

        Raises:
            Py4JJavaError: the class cannot be compiled: this Spark lacks a class or a method that it uses.
        """
        if name not in self._classes:
            if generated is not None:
                self._finder.addResource(name + _SUFFIX, generated)
                self._generated[name] = generated
                if self._kept.get(name + _SUFFIX) == generated.encode():
                    self._use_kept(name)
            self._classes[name] = self._loader.loadClass(name)
            self._keep()
        return self._classes[name]

    def _use_kept(self, name: str) -> None:
        for file in [file for file in self._kept if _source_of(file) == name and not file.endswith(_SUFFIX)]:
            self._compiled.addResource(file, self._kept[file])

    def _keep(self) -> None:
        """Keep what was compiled since the last call; of generated classes the texts, too, which may be others."""
        made = self._made_files
        if self._file is None or made.size() == self._made_count:
            return
        self._made_count = made.size()
        for file in str(self._join(_SEPARATOR, made.keySet())).split(_SEPARATOR):
            name = _source_of(file)
            if file not in self._new:
                self._new[file] = bytes(made.get(file))
            if name in self._generated:
                self._new[name + _SUFFIX] = self._generated[name].encode()
        self._kept.update(self._new)
        write_classes(self._file, self._kept)


def _source_of(file: str) -> str:
    return re.split(r"[.$]", file)[0]


_of_jvms: WeakKeyDictionary[Any, JavaSources] = WeakKeyDictionary()
_lock = threading.Lock()


def sources() -> dict[str, str]:
    """Return the sources by the names of their classes."""
    folder = resources.files(__package__) / _FOLDER
    files = [file for file in folder.iterdir() if file.name.endswith(_SUFFIX)]
    return {file.name.removesuffix(_SUFFIX): file.read_text(encoding="utf-8") for file in files}


def java_class(gateway: Gateway, name: str, generated: str | None = None) -> JavaObject:
    """Return the ``java.lang.Class`` of a class of this package.

    Raises:
        Py4JJavaError: the class cannot be compiled: this Spark lacks a class or a method that it uses.
    """
    with _lock:
        return _sources_of(gateway).load(name, generated)


def shared_object(gateway: Gateway, name: str) -> JavaObject:
    """Return the one object of a class of this package that has no state; raises as `java_class`."""
    with _lock:
        found = _sources_of(gateway)
        if name not in found.shared:
            found.shared[name] = found.load(name).newInstance()
        return found.shared[name]


def _sources_of(gateway: Gateway) -> JavaSources:
    found = _of_jvms.get(gateway.gateway)
    if found is None:
        found = _of_jvms[gateway.gateway] = JavaSources(gateway)
    return found


def new_object(gateway: Gateway, name: str, *values: tuple[str, Any], generated: str | None = None) -> JavaObject:
    """Make an object of a class of this package.

    Args:
        gateway: the JVM.
        name: the class.
        values: class and value of each argument of its constructor; proxies may be among them.
        generated: the source of a class that has no file.

    Raises:
        Py4JError: the class cannot be compiled, or has no such constructor.
    """
    if not values:
        return java_class(gateway, name, generated).newInstance()
    types = gateway.array("java.lang.Class", [gateway.java_class(type_name) for type_name, _ in values])
    constructor = java_class(gateway, name, generated).getConstructor(types)
    return constructor.newInstance(gateway.array("java.lang.Object", [value for _, value in values]))
