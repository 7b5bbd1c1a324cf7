// Package clients runs the official AHP client for Go against the built binary (LODGE_BIN).
//
// Actions are written and looked at as JSON, so that the tests say what is on the wire; the client's types read and write all of it.
package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/microsoft/agent-host-protocol/clients/go/ahp"
	"github.com/microsoft/agent-host-protocol/clients/go/ahptypes"
	"github.com/microsoft/agent-host-protocol/clients/go/ahpws"
)

// A host on a home of its own.
type house struct {
	home, url string
	process   *exec.Cmd
}

func open(t *testing.T, home string) *house {
	t.Helper()
	process := exec.Command(os.Getenv("LODGE_BIN"), "--home", home, "--port", "0")
	process.Dir = filepath.Dir(home)
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	h := &house{home: home, process: process}
	t.Cleanup(h.kill)
	address := regexp.MustCompile(`ws://\S+`)
	for lines := bufio.NewScanner(out); h.url == "" && lines.Scan(); {
		h.url = address.FindString(lines.Text())
	}
	if h.url == "" {
		t.Fatal("the host said no address")
	}
	return h
}

func (h *house) kill() {
	_ = h.process.Process.Kill()
	_ = h.process.Wait()
}

// A client, and all it heard that nobody waited for yet.
type peer struct {
	t      *testing.T
	ctx    context.Context
	client *ahp.Client
	heard  <-chan ahp.ClientEvent
}

func connect(t *testing.T, h *house) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	transport, err := ahpws.Connect(ctx, h.url)
	if err != nil {
		t.Fatal(err)
	}
	// Events that nobody took are dropped; nothing here may be.
	config := ahp.DefaultConfig()
	config.SubscriptionBuffer = 1 << 16
	client, err := ahp.Connect(ctx, transport, config)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, ctx: ctx, client: client, heard: client.Events().Events()}
	t.Cleanup(func() { p.leave(); cancel() })
	return p
}

func (p *peer) leave() { _ = p.client.Shutdown(p.ctx) }

func join(t *testing.T, h *house, name string) *peer {
	t.Helper()
	p := connect(t, h)
	hello, err := p.client.Initialize(p.ctx, name, ahptypes.SupportedProtocolVersions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if hello.ProtocolVersion != ahptypes.ProtocolVersion {
		t.Fatalf("speaks %s", hello.ProtocolVersion)
	}
	return p
}

func (p *peer) request(method string, params any) map[string]any {
	p.t.Helper()
	var result json.RawMessage
	if err := p.client.Request(p.ctx, method, params, &result); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	return object(p.t, result)
}

// The state behind a channel, as the client reads it.
func (p *peer) subscribe(channel string) map[string]any {
	p.t.Helper()
	result, _, err := p.client.Subscribe(p.ctx, channel)
	if err != nil {
		p.t.Fatal(err)
	}
	return object(p.t, result)["snapshot"].(map[string]any)
}

func (p *peer) dispatch(channel string, text string) {
	p.t.Helper()
	var action ahptypes.StateAction
	if err := json.Unmarshal([]byte(text), &action); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.client.Dispatch(p.ctx, channel, action); err != nil {
		p.t.Fatal(err)
	}
}

// Takes what is heard up to an action of this kind, through `each`.
func (p *peer) until(kind string, each func(string, ahptypes.ActionEnvelope)) map[string]any {
	p.t.Helper()
	for {
		select {
		case event, open := <-p.heard:
			if !open {
				p.t.Fatalf("cut off before %s: %v", kind, p.client.Err())
			}
			said, ok := event.Event.(ahp.SubscriptionEventAction)
			if !ok {
				continue
			}
			if each != nil {
				each(event.Channel, said.Envelope)
			}
			action := object(p.t, said.Envelope)["action"].(map[string]any)
			if action["type"] == kind {
				return action
			}
		case <-p.ctx.Done():
			p.t.Fatalf("%s never came", kind)
		}
	}
}

// Makes a session and listens to its chat.
func (p *peer) session(id string) (session, chat string) {
	p.t.Helper()
	session = "ahp-session:/" + id
	p.request("createSession", map[string]any{"channel": session})
	state := p.subscribe(session)["state"].(map[string]any)
	chat = state["defaultChat"].(string)
	p.subscribe(chat)
	return session, chat
}

func (p *peer) say(chat, turn, text string) {
	p.t.Helper()
	message, _ := json.Marshal(map[string]any{"text": text, "origin": map[string]string{"kind": "user"}})
	p.dispatch(chat, `{"type":"chat/turnStarted","turnId":"`+turn+`","startedAt":"2026-01-01T00:00:00Z","message":`+string(message)+`}`)
}

func object(t *testing.T, value any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return fields
}

func text(t *testing.T, value any) string {
	t.Helper()
	written, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

func home(t *testing.T) string { return filepath.Join(t.TempDir(), "home") }

func TestAMirrorOfTheOfficialReducerEqualsTheHost(t *testing.T) {
	h := open(t, home(t))
	a := join(t, h, "a")
	_, chat := a.session("0b1c0000-0000-4000-8000-000000000001")
	var mirror ahptypes.ChatState
	from := a.subscribe(chat)
	if err := json.Unmarshal([]byte(text(t, from["state"])), &mirror); err != nil {
		t.Fatal(err)
	}
	since := int64(from["fromSeq"].(float64))
	follow := func(channel string, said ahptypes.ActionEnvelope) {
		if channel == chat && said.ServerSeq > since {
			ahp.ApplyActionToChat(&mirror, said.Action)
		}
	}
	a.say(chat, "t1", "say hello there")
	a.until("chat/turnComplete", follow)
	a.say(chat, "t2", "think aloud")
	a.until("chat/turnComplete", follow)
	b := join(t, h, "b")
	state := b.subscribe(chat)["state"].(map[string]any)
	if turns := state["turns"].([]any); len(turns) != 2 || !strings.Contains(text(t, turns[0]), "hello there") {
		t.Fatalf("turns: %s", text(t, turns))
	}
	if seen := object(t, mirror)["turns"]; !reflect.DeepEqual(seen, state["turns"]) {
		t.Fatalf("the mirror has %s\nthe host %s", text(t, seen), text(t, state["turns"]))
	}
}

func TestAToolIsApprovedByAnotherClientAndATurnIsCancelled(t *testing.T) {
	h := open(t, home(t))
	a, b := join(t, h, "a"), join(t, h, "b")
	_, chat := a.session("0b1c0000-0000-4000-8000-000000000002")
	b.subscribe(chat)
	file := filepath.Join(filepath.Dir(h.home), "made.txt")
	a.say(chat, "t1", `call bash {"command":"echo made > `+file+`"}`)
	ready := b.until("chat/toolCallReady", nil)
	b.dispatch(chat, `{"type":"chat/toolCallConfirmed","turnId":"t1","toolCallId":"`+ready["toolCallId"].(string)+`","approved":true,"confirmed":"user-action"}`)
	a.until("chat/turnComplete", nil)
	if made, err := os.ReadFile(file); err != nil || string(made) != "made\n" {
		t.Fatalf("%q, %v", made, err)
	}
	a.say(chat, "t2", `call bash {"command":"echo again > `+file+`"}`)
	b.until("chat/toolCallReady", nil)
	b.dispatch(chat, `{"type":"chat/turnCancelled","turnId":"t2","duration":1}`)
	a.until("chat/turnCancelled", nil)
	if made, _ := os.ReadFile(file); string(made) != "made\n" {
		t.Fatalf("it ran all the same: %q", made)
	}
}

func TestNothingIsMissedByWhoComesBack(t *testing.T) {
	h := open(t, home(t))
	a := join(t, h, "a")
	session, chat := a.session("0b1c0000-0000-4000-8000-000000000003")
	seen := int64(a.subscribe(chat)["fromSeq"].(float64))
	a.leave()
	b := join(t, h, "b")
	b.subscribe(chat)
	b.say(chat, "t1", "say hello there")
	b.until("chat/turnComplete", nil)
	back := connect(t, h)
	replay, err := back.client.Reconnect(back.ctx, "a", seen, []string{session, chat})
	if err != nil {
		t.Fatal(err)
	}
	if missed := text(t, replay); !strings.Contains(missed, "chat/turnComplete") {
		t.Fatalf("missed %s", missed)
	}
	// After a kill the host comes back where it was; who was there before gets the state.
	h.kill()
	h = open(t, h.home)
	again := connect(t, h)
	result, err := again.client.Reconnect(again.ctx, "a", seen, []string{chat})
	if err != nil {
		t.Fatal(err)
	}
	if state := text(t, result); !strings.Contains(state, "hello there") {
		t.Fatalf("got %s", state)
	}
}

func TestErrorsReachWhoCausedThem(t *testing.T) {
	h := open(t, home(t))
	a := join(t, h, "a")
	var wrong *ahp.RPCError
	if _, _, err := a.client.Subscribe(a.ctx, "ahp-session:/0b1c0000-0000-4000-8000-00000000000f"); !errors.As(err, &wrong) || wrong.Code != -32001 {
		t.Fatalf("said %v", err)
	}
	_, chat := a.session("0b1c0000-0000-4000-8000-000000000004")
	a.say(chat, "t1", "fail with authentication")
	a.until("chat/error", nil)
	// The same turn once more is refused, to its sender alone.
	a.say(chat, "t1", "say again")
	refused := ""
	a.until("chat/turnStarted", func(_ string, said ahptypes.ActionEnvelope) {
		if reason, ok := object(t, said)["rejectionReason"].(string); ok {
			refused = reason
		}
	})
	if refused == "" {
		t.Fatal("a turn began twice")
	}
}
