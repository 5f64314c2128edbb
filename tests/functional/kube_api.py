# SPDX-License-Identifier: Apache-2.0
"""So much of an API server of Kubernetes as kubectl needs to say what it would do: which kinds there are, pods, and what it is sent. It runs
nothing."""
import contextlib
import http.server
import json
import os
import threading

from cluster import programs
from harness import scratch

KINDS = {"v1": [("pods", "Pod"), ("pods/ephemeralcontainers", "Pod"), ("nodes", "Node"), ("serviceaccounts", "ServiceAccount")],
         "apps/v1": [("daemonsets", "DaemonSet")], "batch/v1": [("jobs", "Job")]}


def discovery(version):
    return {"kind": "APIResourceList", "groupVersion": version,
            "resources": [{"name": name, "singularName": "", "namespaced": kind != "Node", "kind": kind, "verbs": ["create", "get", "list", "patch"]}
                          for name, kind in KINDS[version]]}


def groups():
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
        {"name": group, "versions": [{"groupVersion": f"{group}/v1", "version": "v1"}], "preferredVersion": {"groupVersion": f"{group}/v1", "version": "v1"}}
        for group in ("apps", "batch")]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, document, status=200):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def find(self):
        path = self.path.split("?")[0].strip("/")
        if path == "api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "apis":
            return groups()
        if path in ("api/v1", "apis/apps/v1", "apis/batch/v1"):
            return discovery(path.split("/", 1)[1])
        if path.endswith("/pods"):
            return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(self.server.pods.values())}
        if "/nodes/" in path:
            return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": path.rsplit("/", 1)[-1]}}
        name = path.rsplit("/pods/", 1)[-1].split("/")[0]
        return self.server.pods.get(name)

    def do_GET(self):
        found = self.find()
        self.answer(*((found,) if found else ({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"}, 404)))

    def do_PATCH(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.sent.append((self.path.split("?")[0], body))
        self.answer(self.find())

    def do_POST(self):
        """What kubectl makes itself it may send in Kubernetes' binary form: it is kept as it comes."""
        self.server.sent.append((self.path.split("?")[0], self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(pod("made"), 201)

    def log_message(self, *_):
        pass


def pod(name, namespace="default"):
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace, "uid": "1", "resourceVersion": "1"},
            "spec": {"nodeName": "gpu-7", "containers": [{"name": "main", "image": "train"}]}, "status": {"phase": "Running"}}


@contextlib.contextmanager
def api(*names):
    """Yields (an environment in which kubectl asks it, a list of what it was sent: path and document)."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.pods = {name: pod(name) for name in names}
    server.sent = []
    config = scratch("config")
    with open(config, "w", encoding="ascii") as file:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                   "users": [{"name": "x", "user": {}}],
                   "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}]}, file)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    env = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
    try:
        yield dict(env, KUBECONFIG=config, HOME=scratch(), PATH=f"{programs('kubectl')}:{env['PATH']}"), server.sent
    finally:
        server.shutdown()
        server.server_close()
