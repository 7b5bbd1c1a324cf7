"""Traces of sessions, for apps that ask for them."""

import http.server
import json
import threading

from help import Test, ask, environment, until
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Takes OTLP over HTTP and keeps the spans."""

    def __enter__(self):
        self.spans = []
        self.posts = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.posts.append((self.path, dict(self.headers), body))
                if self.headers["content-type"] == "application/json" and self.path == "/v1/traces":
                    body = json.loads(body)
                    for scope in body["resourceSpans"][0]["scopeSpans"]:
                        outer.spans += [(scope["scope"]["name"], span) for span in scope["spans"]]
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Traces(Test):
    async def test_a_file_holds_the_spans_of_a_turn_with_what_was_said(self):
        path = self.dir / "traces.jsonl"
        client = await self.start(telemetry={"file_path": str(path), "exporter_type": "file", "source_name": "mine", "capture_content": True})
        chat, _ = await self.session(client)
        await ask(chat, 'call bash {"command":"echo from the shell"} then say the end')
        await chat.disconnect()
        await client.stop()
        spans = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual({(span["type"], span["instrumentationScope"]["name"], span["status"]["code"]) for span in spans}, {("span", "mine", 0)})
        by_operation = {}
        for span in spans:
            by_operation.setdefault(span["attributes"]["gen_ai.operation.name"], []).append(span)
        [agent] = by_operation.pop("invoke_agent")
        self.assertNotIn("parentSpanId", agent)
        self.assertEqual(agent["attributes"]["gen_ai.conversation.id"], chat.session_id)
        for span in by_operation["chat"] + by_operation["execute_tool"]:
            self.assertEqual((span["traceId"], span["parentSpanId"]), (agent["traceId"], agent["spanId"]))
        self.assertEqual(len(by_operation["chat"]), 2)
        self.assertIn("echo from the shell", by_operation["chat"][0]["attributes"]["gen_ai.input.messages"])
        self.assertIn("the end", by_operation["chat"][1]["attributes"]["gen_ai.output.messages"])
        [tool] = by_operation["execute_tool"]
        self.assertEqual(tool["attributes"]["gen_ai.tool.name"], "bash")
        self.assertIn("from the shell", tool["attributes"]["gen_ai.tool.call.result"])

    async def test_a_collector_gets_them_without_what_was_said(self):
        with Collector() as collector:
            chat, _ = await self.session(await self.start(telemetry={"otlp_endpoint": collector.url}))
            await ask(chat, "say a secret")
            await until("the agent's span is there", lambda: any(span["name"] == "invoke_agent" for _, span in collector.spans))
            chats = [span for _, span in collector.spans if span["name"].startswith("chat ")]
            [agent] = [span for _, span in collector.spans if span["name"] == "invoke_agent"]
            self.assertEqual([span["parentSpanId"] for span in chats], [agent["spanId"]])
            self.assertLessEqual(int(agent["startTimeUnixNano"]), int(agent["endTimeUnixNano"]))
            self.assertNotIn("secret", json.dumps(collector.spans))

    async def test_metrics_count_the_calls_and_their_tokens(self):
        with Collector() as collector:
            chat, _ = await self.session(await self.start(telemetry={"otlp_endpoint": collector.url}))
            await ask(chat, "say one")
            await ask(chat, "say two")

            def counted():
                bodies = [json.loads(body) for path, _, body in collector.posts if path == "/v1/metrics"]
                metrics = bodies[-1]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"] if bodies else []
                points = {metric["name"]: metric["histogram"]["dataPoints"] for metric in metrics}
                calls = points.get("gen_ai.client.operation.duration", [])
                return points if [point["count"] for point in calls] == ["2"] else None

            points = await until("both calls are counted", counted)
            tokens = points["gen_ai.client.token.usage"]
            self.assertEqual([point["count"] for point in tokens], ["2", "2"])
            for point in tokens:
                self.assertEqual(sum(int(count) for count in point["bucketCounts"]), 2)
                self.assertGreater(point["sum"], 0)

    async def test_a_collector_is_told_what_its_variables_say_in_the_protocol_that_they_name(self):
        with Collector() as collector:
            telemetry = {"otlp_endpoint": collector.url, "otlp_protocol": "http/protobuf", "source_name": "mine"}
            env = environment() | {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20mine,x-team=one"}
            chat, _ = await self.session(await self.start(telemetry=telemetry, env=env))
            await ask(chat, "say fine")
            await until("the agent's span is there", lambda: any(b"invoke_agent" in body for _, _, body in collector.posts))
            await until("metrics are there", lambda: any(path == "/v1/metrics" for path, _, _ in collector.posts))
            for _, headers, body in collector.posts:
                headers = {name.lower(): value for name, value in headers.items()}
                self.assertEqual(headers["content-type"], "application/x-protobuf")
                self.assertEqual((headers["authorization"], headers["x-team"]), ("Bearer mine", "one"))
            requests = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
            read = {path: [requests[path].FromString(body) for at, _, body in collector.posts if at == path] for path in requests}
            scopes = [scope for request in read["/v1/traces"] for resource in request.resource_spans for scope in resource.scope_spans]
            self.assertEqual({scope.scope.name for scope in scopes}, {"mine"})
            spans = {span.name: span for scope in scopes for span in scope.spans}
            agent = spans.pop("invoke_agent")
            self.assertEqual([(span.trace_id, span.parent_span_id) for span in spans.values()], [(agent.trace_id, agent.span_id)])
            self.assertLessEqual(agent.start_time_unix_nano, agent.end_time_unix_nano)
            self.assertEqual((len(agent.trace_id), len(agent.span_id)), (16, 8))
            metrics = [metric for resource in read["/v1/metrics"][-1].resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]
            counts = {metric.name: [point.count for point in metric.histogram.data_points] for metric in metrics}
            self.assertEqual(counts["gen_ai.client.operation.duration"], [1])

    async def test_nothing_listens_and_nothing_waits(self):
        chat, _ = await self.session(await self.start(telemetry={"otlp_endpoint": "http://127.0.0.1:1"}))
        self.assertEqual(await ask(chat, "say fine"), "fine")
