"""Session files that the client keeps, with its database; and commands that wait, asides, limits of what is written."""

import errno
import json
import shutil

from copilot import rpc
from copilot.generated.rpc import DebugCollectLogsEntryKind, SessionFSReaddirWithTypesEntry
from copilot.session_fs_provider import SessionFsProvider, SessionFsSqliteProvider, SessionFsSqliteQueryResult
from help import Test, ask, of_kind, wait_for

STATE = "/kept/session-state"
CONFIG = {"initial_working_directory": "/", "session_state_path": STATE, "conventions": "posix"}


class Memory(SessionFsProvider, SessionFsSqliteProvider):
    """Everything in dictionaries that outlive the session."""

    def __init__(self, files, queries):
        self.files = files
        self.queries = queries

    async def read_file(self, path):
        if path not in self.files:
            raise OSError(errno.ENOENT, f"there is no {path}")
        return self.files[path]

    async def write_file(self, path, content, mode=None):
        self.files[path] = content

    async def append_file(self, path, content, mode=None):
        self.files[path] = self.files.get(path, "") + content

    async def exists(self, path):
        return any(known == path or known.startswith(f"{path}/") for known in self.files)

    async def stat(self, path):
        raise OSError(errno.ENOENT, "nobody asks")

    async def mkdir(self, path, recursive, mode=None):
        pass

    async def readdir(self, path):
        return []

    async def readdir_with_types(self, path):
        found = {}
        for known in self.files:
            if known.startswith(f"{path}/"):
                name, *rest = known[len(path) + 1 :].split("/")
                found[name] = "directory" if rest else "file"
        return [
            SessionFSReaddirWithTypesEntry(name=name, type=DebugCollectLogsEntryKind(kind))
            for name, kind in found.items()
        ]

    async def rm(self, path, recursive, force):
        self.files.pop(path, None)

    async def rename(self, src, dest):
        raise OSError("nobody renames")

    async def sqlite_query(self, query_type, query, params=None):
        self.queries.append((query_type.value, query))
        if query_type.value == "run":
            return SessionFsSqliteQueryResult(rows=[], columns=[], rows_affected=1, last_insert_rowid=3)
        return None

    async def sqlite_exists(self):
        return True


class Storage(Test):
    async def test_a_session_lives_in_the_clients_files_and_comes_back_from_them(self):
        kept, queries = {}, []

        def provider(session):
            return Memory(kept.setdefault(session.session_id, {}), queries)

        client = await self.start(session_fs={**CONFIG, "capabilities": {"sqlite": True}})
        chat, _ = await self.session(client, create_session_fs_handler=provider)
        files = kept[chat.session_id]
        await chat.rpc.plan.update(rpc.PlanUpdateRequest(content="# Mine"))
        self.assertEqual(files[f"{STATE}/plan.md"], "# Mine")
        await ask(chat, "say the word is swordfish")
        query = json.dumps({"description": "d", "query": "INSERT INTO todos (id, title) VALUES ('a', 'A')"})
        self.assertIn("Last inserted row ID: 3", await ask(chat, f"call sql {query}"))
        self.assertIn("run", [kind for kind, _ in queries])
        await client.stop()
        lines = [json.loads(line) for line in files[f"{STATE}/events.jsonl"].splitlines()]
        self.assertEqual(sum(line["type"] == "user.message" for line in lines), 2)
        shutil.rmtree(self.home)

        second = await self.start(session_fs={**CONFIG, "capabilities": {"sqlite": True}})
        again, _ = await self.resume(second, chat.session_id, create_session_fs_handler=provider)
        self.assertIn("swordfish", await ask(again, "what did I say?"))
        self.assertEqual((await again.rpc.plan.read()).content, "# Mine")

    async def test_secrets_are_in_no_event(self):
        client = await self.start()
        chat, events = await self.session(client)
        await client.rpc.secrets.add_filter_values(rpc.SecretsAddFilterValuesRequest(values=["hunter2-hunter2"]))
        await ask(chat, 'call bash {"command":"echo hunter2-hunter2"} then say done')
        done = of_kind(events, "tool.execution_complete")[0]
        self.assertIn("******", done.data.result.content)
        self.assertNotIn("hunter2", repr([event for event in events if not event.ephemeral]))

    async def test_commands_wait_for_one_another_and_asides_stay_out_of_the_log(self):
        chat, events = await self.session()
        for command in ["/one", "/two"]:
            self.assertTrue((await chat.rpc.commands.enqueue(rpc.EnqueueCommandParams(command=command))).queued)
        await wait_for(events, "command.queued")
        items = (await chat.rpc.queue.pending_items()).items
        self.assertEqual([item.display_text for item in items], ["/two"])
        await chat.rpc.queue.clear()
        self.assertEqual((await chat.rpc.queue.pending_items()).items, [])
        before = len(await chat.get_events())
        answer = await chat.rpc.ui.ephemeral_query(rpc.UIEphemeralQueryRequest(question="say aside"))
        self.assertIn("aside", answer.answer)
        self.assertEqual(len(await chat.get_events()), before)
