"""A Kerberos KDC of MIT on this machine (Debian: `krb5-kdc`, `krb5-admin-server`), with its own realm and keytabs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from conftest import absent
from tests.support.store_server import free_port

REALM = "TESTS.PAIMON"
HOST = "127.0.0.1"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "klist", "kdestroy")
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
_CONFIG = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = {host}:{port}
}}
"""
_KDC_CONFIG = """[kdcdefaults]
kdc_listen = {host}:{port}
kdc_tcp_listen = {host}:{port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_life = 1h
  supported_enctypes = aes256-cts:normal
}}
"""


@dataclass(frozen=True)
class Kdc:
    """A KDC that runs."""

    folder: Path
    environment: dict[str, str]

    @property
    def config(self) -> str:
        """The path of ``krb5.conf``, which KRB5_CONFIG names."""
        return f"{self.folder}/krb5.conf"

    @property
    def service(self) -> str:
        """The principal of the metastore."""
        return f"hive/{HOST}@{REALM}"

    def keytab(self, principal: str) -> str:
        """Make a principal, if it is not there, and its keytab, whose path is returned."""
        path = self.folder / f"{principal.replace('/', '_')}.keytab"
        if not path.exists():
            self.administer(f"addprinc -randkey {principal}")
            self.administer(f"ktadd -k {path} {principal}")
        return str(path)

    def administer(self, query: str) -> None:
        """Change the database of the KDC."""
        self.run("kadmin.local", "-q", query)

    def log_in(self, principal: str, *arguments: str) -> None:
        """Put a ticket into the ticket cache of `environment`."""
        self.run("kinit", *arguments, "-k", "-t", self.keytab(principal), principal)

    def log_out(self) -> None:
        """Take the tickets away."""
        subprocess.run([_found("kdestroy"), "-q"], env=self.environment, check=False, capture_output=True)

    def has_tickets(self) -> bool:
        """Whether the ticket cache has one that is valid."""
        return not subprocess.run([_found("klist"), "-s"], env=self.environment, check=False).returncode

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of Kerberos.

        Raises:
            RuntimeError: it fails.
        """
        done = subprocess.run(
            [_found(program), *arguments], env=self.environment, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stderr or done.stdout}")


@contextmanager
def running_kdc() -> Iterator[Kdc]:
    """Start the KDC; it ends with the context.

    Raises:
        OSError: Kerberos is not on this machine.
        RuntimeError: it does not start.
    """
    for program in _PROGRAMS:
        _found(program)
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        values = {"realm": REALM, "host": HOST, "port": port, "folder": folder}
        (folder / "krb5.conf").write_text(_CONFIG.format(**values))
        (folder / "kdc.conf").write_text(_KDC_CONFIG.format(**values))
        environment = {
            **os.environ,
            "KRB5_CONFIG": f"{folder}/krb5.conf",
            "KRB5_KDC_PROFILE": f"{folder}/kdc.conf",
            "KRB5CCNAME": f"FILE:{folder}/tickets",
        }
        kdc = Kdc(folder, environment)
        kdc.run("kdb5_util", "create", "-s", "-P", "of tests", "-r", REALM)
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [_found("krb5kdc"), "-n", "-r", REALM],
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        try:
            kdc.keytab(kdc.service)
            _wait_for(kdc, server)
            yield kdc
        finally:
            server.terminate()
            server.wait(30)


@contextmanager
def own_kdc() -> Iterator[Kdc]:
    """Start a KDC whose tickets this process finds.

    The test is skipped where `.ci/run` or `tests/run.py` has said that Kerberos cannot be installed.
    """
    if "PAIMON_SPARK_WITHOUT_KERBEROS" in os.environ:
        pytest.skip("No KDC can be installed on this runner.")
    with ExitStack() as started, pytest.MonkeyPatch.context() as patch:
        try:
            if find_spec("gssapi") is None:
                raise OSError("the package gssapi")
            found = started.enter_context(running_kdc())
        except OSError as error:
            absent(f"Kerberos ({error})")
        for key in ("KRB5_CONFIG", "KRB5CCNAME"):
            patch.setenv(key, found.environment[key])
        yield found


def _wait_for(kdc: Kdc, server: subprocess.Popen[bytes]) -> None:
    """Until it gives tickets."""
    while True:
        try:
            kdc.log_in(kdc.service)
        except RuntimeError:
            if server.poll() is not None:
                raise RuntimeError((kdc.folder / "log").read_text()) from None
        else:
            kdc.log_out()
            return


def _found(program: str) -> str:
    path = shutil.which(program, path=_PATH)
    if path is None:
        raise OSError(f"{program} of the packages krb5-kdc, krb5-admin-server and krb5-user")
    return path
