// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// library is a WebSocket library with a client and a server of this folder.
type library struct {
	name string
	// interpreter runs the scripts, which lie in the folder of the library's
	// name with this extension.
	interpreter, extension string
	// variable of the environment that names where scripts/install-deps has put
	// the library, and that place below .tools/.
	variable, installed string
}

var libraries = []library{
	{name: "node", interpreter: "node", extension: ".js", variable: "NODE_PATH", installed: "websocket/node_modules"},
	{name: "python", interpreter: "python3", extension: ".py", variable: "PYTHONPATH", installed: "websocket/python"},
}

// run starts a script of the library.
func (l library) run(t testing.TB, place *harness.Place, script string, argument string) *harness.Process {
	t.Helper()
	cmd := exec.Command(harness.Command(t, l.interpreter), filepath.Join(l.name, script+l.extension), argument)
	cmd.Env = append(os.Environ(), l.variable+"="+harness.Tool(t, l.installed), "PYTHONDONTWRITEBYTECODE=1")
	return place.RunCommand(t, cmd)
}

// server is a running server.
type server struct {
	*harness.Process
	address netip.AddrPort
}

// counters are what a server tells of itself.
type counters struct {
	Open, Opened, Messages int
	// Sent is how many bytes of /stream the library has taken.
	Sent int64
	// Ends counts connections by close code.
	Ends map[string]int
}

func (l library) server(t testing.TB, place *harness.Place) *server {
	t.Helper()
	s := &server{Process: l.run(t, place, "server", place.Address.String())}
	var ready struct{ Address string }
	s.Next(t, &ready)
	s.address = netip.MustParseAddrPort(ready.Address)
	return s
}

// counters asks the server; the command "read" also lets its sinks read.
func (s *server) counters(t testing.TB, command string) counters {
	t.Helper()
	var c counters
	s.Ask(t, command, &c)
	return c
}

// spec is what a client is to do; README.md describes the cases.
type spec struct {
	URL, Case string
	Seed      int
	// Connections of the case "echo".
	Connections int
	// Messages is the number of random messages of each connection, of at most
	// Size bytes; Sizes come before them. Size is also the length of a stream.
	Messages int
	Size     int
	Sizes    []int
	// Codes to ask for in the case "close", one connection each.
	Codes []int
	// Timeout of a connection's part, in seconds.
	Timeout int
}

// Cases of a client.
const (
	caseEcho  = "echo"
	caseClose = "close"
	caseDown  = "down"
	caseUp    = "up"
)

// report is what a client has done so far.
type report struct {
	Open, Messages int
	// Bytes of checked echoes or of a stream; Sent is those of an upload.
	Bytes, Sent int64
	Pings       int
	// Compressed connections have negotiated an extension.
	Compressed int
	// Errors counts; Problems are the first ones in words.
	Errors   int
	Problems []string
	// Ends counts connections by close code.
	Ends map[string]int
}

// client is a running client, with its latest report.
type client struct {
	*harness.Process
	spec   spec
	report report
}

// timeout of a connection's part in seconds: it tells a connection that is
// stuck from a slow machine.
const timeout = 300

// client starts a client and waits until it has opened its connections.
func (l library) client(t testing.TB, place *harness.Place, s spec) *client {
	t.Helper()
	s.Timeout = timeout
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{Process: l.run(t, place, "client", string(text)), spec: s}
	c.Next(t, &c.report)
	return c
}

// ask sends a command and keeps the report.
func (c *client) ask(t testing.TB, command string) report {
	t.Helper()
	c.report = report{}
	c.Ask(t, command, &c.report)
	return c.report
}

// play lets the client play its case to the end, and fails on any problem.
func (c *client) play(t testing.TB) report {
	t.Helper()
	r := c.ask(t, "go")
	if r.Errors > 0 {
		t.Errorf("%s: %d errors, the first: %q", c.spec.Case, r.Errors, r.Problems)
	}
	return r
}

// total is the number of connections that ended.
func total(ends map[string]int) int {
	sum := 0
	for n := range maps.Values(ends) {
		sum += n
	}
	return sum
}
