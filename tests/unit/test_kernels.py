"""Kernelspecs, the gateway's messages and the commands: everything about kernels that starts none."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitmem_lab.cli import cli
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.kernels import frames, probe
from jitmem_lab.kernels.gateway import Gateway, add_gateway
from jitmem_lab.kernels.provisioner import add_local
from jitmem_lab.kernels.specs import PROVISIONERS, check_name, list_specs, read_env, read_spec, remove_spec
from jitmem_lab.kernels.ssh import add_ssh, ssh_settings
from jitmem_lab.terminal import exit_code

pytestmark = pytest.mark.unit


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the kernelspecs of a user who has none."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "data" / "kernels"


def jitmem(*words: str) -> int:
    return exit_code(cli, ["kernels", *words])


def test_a_kernel_is_added_listed_and_removed(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert jitmem("list") == 0
    assert "no kernels yet" in capsys.readouterr().out
    assert (
        jitmem(
            "add", "gpu", "--local", "--env", "CUDA_VISIBLE_DEVICES=1", "--cwd", str(kernels.parent.parent)
        )
        == 0
    )
    spec = json.loads((kernels / "gpu" / "kernel.json").read_text())
    assert spec["argv"] == [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert spec["env"] == {"CUDA_VISIBLE_DEVICES": "1"}
    assert spec["metadata"]["kernel_provisioner"] == {
        "provisioner_name": "jitmem-local",
        "config": {"label": "gpu", "folder": str(kernels.parent.parent)},
    }
    capsys.readouterr()
    assert jitmem("list", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["name"], row["kind"], row["target"]) == ("gpu", "local", sys.executable)
    assert jitmem("add", "gpu", "--local") == 2
    assert "remove it first: jitmem kernels remove gpu" in capsys.readouterr().err
    assert jitmem("remove", "gpu") == 0
    assert not (kernels / "gpu").exists()
    assert jitmem("remove", "gpu") == 2


def test_every_provisioner_is_an_entry_point() -> None:
    from jupyter_client.provisioning import KernelProvisionerFactory

    factory = KernelProvisionerFactory.instance()
    for name in PROVISIONERS.values():
        assert factory.provisioners[name].load()


@pytest.mark.parametrize("name", ["", "GPU", "a b", "../x", ".x", "-x", "python3", "jitmem-own"])
def test_names_that_jupyter_would_not_find_are_refused(kernels: Path, name: str) -> None:
    with pytest.raises(UserError):
        check_name(name)


def test_another_packages_kernel_is_left_alone(kernels: Path) -> None:
    (kernels / "theirs").mkdir(parents=True)
    (kernels / "theirs" / "kernel.json").write_text(json.dumps({"argv": ["x"], "display_name": "x"}))
    (kernels / "torn").mkdir()
    (kernels / "torn" / "kernel.json").write_text("{")
    assert list_specs() == []
    for name in ("theirs", "torn"):
        with pytest.raises(UserError, match="no kernel"):
            remove_spec(name)
        with pytest.raises(UserError, match="already"):
            check_name(name)


@pytest.mark.parametrize(
    "pair", ["HF_TOKEN=abc", "OPENAI_API_KEY=abc", "my_password=x", "AWS_SECRET=1", "API_KEY="]
)
def test_a_secret_never_gets_into_a_kernelspec(
    kernels: Path, pair: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jitmem("add", "gpu", "--local", "--env", pair) == 2
    assert pair.partition("=")[0] in capsys.readouterr().err
    assert not kernels.exists()


def test_variables_may_be_handed_on_and_ordinary_ones_written() -> None:
    assert read_env(["HF_TOKEN=${MY_TOKEN}", "TOKENIZERS_PARALLELISM=a=b", "MAX_TOKENS="]) == {
        "HF_TOKEN": "${MY_TOKEN}",
        "TOKENIZERS_PARALLELISM": "a=b",
        "MAX_TOKENS": "",
    }
    with pytest.raises(UserError, match="NAME=VALUE"):
        read_env(["novalue"])


@pytest.mark.parametrize(
    "url",
    ["gpu1:8888", "ftp://gpu1", "http://", "http://me:pw@gpu1", "http://gpu1/?token=abc", "http://gpu1/#t"],
)
def test_a_gateways_address_holds_no_secret(kernels: Path, url: str) -> None:
    with pytest.raises(UserError):
        add_gateway("far", url)
    assert not kernels.exists()


def test_a_token_given_for_its_variable_is_refused(kernels: Path) -> None:
    with pytest.raises(UserError, match="not the token itself"):
        add_gateway("far", "https://gpu1:8888", "abc-123")


def test_a_gateways_kernelspec_names_the_variable(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_TOKEN", "sesame")
    folder = add_gateway("far", "https://gpu1:8888/", "GPU_TOKEN", "torch")
    text = (folder / "kernel.json").read_text()
    assert "sesame" not in text
    config = json.loads(text)["metadata"]["kernel_provisioner"]["config"]
    assert config == {
        "label": "far",
        "url": "https://gpu1:8888",
        "token_env": "GPU_TOKEN",
        "remote_name": "torch",
    }
    assert Gateway("https://gpu1:8888", "GPU_TOKEN").headers == {"Authorization": "token sesame"}
    assert Gateway("https://gpu1:8888").headers == {}


@pytest.mark.parametrize(
    ("status", "token_env", "kind", "says"),
    [
        (401, "GPU_TOKEN", UserError, "set GPU_TOKEN to the gateway's token"),
        (403, "", UserError, "--token-env"),
        (404, "", UserError, "check the gateway's address"),
        (302, "", UserError, "check the gateway's address"),
        (503, "", InfrastructureError, "fails with status 503"),
    ],
)
def test_what_a_gateways_status_means(status: int, token_env: str, kind: type, says: str) -> None:
    error = Gateway("http://gpu1", token_env).complaint(status)
    assert type(error) is kind
    assert says in str(error)


def test_ssh_settings_share_a_connection_and_take_in_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "with space" / "config"
    own.parent.mkdir()
    own.write_text("Host gpu*\n  HostName 192.0.2.1\n  Port 2222\n  ControlMaster no\n  IdentityFile ~/k\n")
    settings = tmp_path / "ssh_config"
    settings.write_text(ssh_settings("gpu1", "me", own))
    settings.chmod(0o600)
    try:
        asked = subprocess.run(
            ["ssh", "-F", settings, "-G", "gpu1"], capture_output=True, text=True, check=True, timeout=20
        ).stdout.splitlines()
    except FileNotFoundError:
        pytest.skip("no ssh here: install Debian's package openssh-client")
    wanted = {
        "hostname 192.0.2.1",
        "port 2222",
        "user me",
        "batchmode yes",
        "controlmaster auto",
        "controlpersist 60",
    }
    assert wanted <= set(asked)


@pytest.mark.parametrize("host", ["", "-oProxyCommand=x", "a b", "me@", "me@-x", "a;b"])
def test_a_host_is_a_host(kernels: Path, host: str) -> None:
    pytest.importorskip("sshpyk", reason="sshpyk is not installed (extra: kernels)")
    with pytest.raises(UserError, match="--ssh takes a host"):
        add_ssh("away", host)
    assert not kernels.exists()


def test_an_ssh_kernelspec_is_sshpyks_with_our_provisioner(kernels: Path) -> None:
    pytest.importorskip("sshpyk", reason="sshpyk is not installed (extra: kernels)")
    folder = add_ssh("away", "me@gpu1", "/opt/bin/python")
    spec = read_spec("away")
    config = spec["metadata"]["kernel_provisioner"]["config"]
    assert (config["ssh_host_alias"], config["remote_python"]) == ("gpu1", "/opt/bin/python")
    assert config["ssh_config"] == str(folder / "ssh_config")
    assert spec["interrupt_mode"] == "message"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gpu"], "give one of"),
        (["gpu", "--local", "--ssh", "x"], "give one of"),
        (["gpu", "--ssh", "x", "--cwd", "/"], "--cwd does not go with --ssh"),
        (["gpu", "--local", "--token-env", "X"], "--token-env does not go with --local"),
        (["gpu", "--gateway", "http://x", "--env", "A=1"], "--env does not go with --gateway"),
        (["gpu", "--local", "--python", "/absent/python"], "there is no Python /absent/python"),
        (["gpu", "--local", "--cwd", "/absent"], "there is no folder /absent"),
    ],
)
def test_options_that_do_not_go_together_add_nothing(
    kernels: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jitmem("add", *words) == 2
    assert says in capsys.readouterr().err
    assert not kernels.exists()


def test_check_of_no_kernel_names_those_there_are(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_local("gpu")
    assert jitmem("check", "gpx") == 2
    assert "there is no kernel 'gpx'; installed kernels: gpu, python3" in capsys.readouterr().err


@given(
    st.sampled_from(["shell", "iopub", "control", "stdin"]),
    st.lists(st.binary(max_size=40), min_size=4, max_size=7),
)
def test_messages_are_those_of_jupyter_server(channel: str, parts: list[bytes]) -> None:
    base = pytest.importorskip("jupyter_server.services.kernels.connection.base", reason="extra: lab")
    blob = frames.pack(channel, parts)
    assert blob == base.serialize_msg_to_ws_v1(parts, channel)
    assert frames.unpack(blob) == (channel, parts)
    assert base.deserialize_msg_from_ws_v1(blob) == (channel, parts)


@pytest.mark.parametrize("blob", [b"", b"{}", b"\xff" * 64, (10**9).to_bytes(8, "little") + b"x" * 80])
def test_what_is_no_message_is_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match="not a message"):
        frames.unpack(blob)


def test_the_probe_is_code_for_old_pythons_and_tells_what_is_here() -> None:
    ast.parse(probe.code(), feature_version=(3, 8))
    done = subprocess.run(
        [sys.executable, "-c", "print('noise')\n" + probe.code()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = probe.read("earlier words\n" + done.stdout)
    assert found is not None
    assert found["executable"] == sys.executable
    assert found["packages"]["ipykernel"]
    assert set(found["packages"]) == set(probe.PACKAGES)
    assert found["device"] in ("cpu", "cuda")
    assert probe.read("nothing of it") is None
    assert "jitmem_lab" not in inspect.getsource(probe.report)


def test_the_probe_reads_what_nvidia_smi_says(tmp_path: Path) -> None:
    """A real program in its place, where there is no GPU."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771, 143000'\necho '[N/A], x, y'\n")
    smi.chmod(0o755)
    code = probe.code().replace(repr(probe.PACKAGES), "('no-such-package',)")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )  # fmt: skip
    found = probe.read(done.stdout)
    assert found is not None
    assert found["devices"] == [{"name": "NVIDIA H200", "memory_gib": 140.4, "free_gib": 139.6}]
    assert found["problem"] == "there is a GPU, but no torch to use it"
