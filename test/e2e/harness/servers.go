// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Origin is a running origin server of package programs.
type Origin struct {
	*Process
	Address netip.AddrPort
}

// Origin starts an origin server on a free port of the place.
func (p *Place) Origin(t testing.TB, identity string) *Origin {
	t.Helper()
	return p.OriginAt(t, identity, netip.AddrPortFrom(p.Address, 0))
}

// OriginAt starts an origin server at an address.
func (p *Place) OriginAt(t testing.TB, identity string, address netip.AddrPort) *Origin {
	t.Helper()
	process, at := p.listening(t, programs.OriginProgram, programs.OriginSpec{Address: address.String(), Identity: identity})
	return &Origin{process, at}
}

// listening starts a program whose first answer is the address that it listens on.
func (p *Place) listening(t testing.TB, name string, spec any) (*Process, netip.AddrPort) {
	t.Helper()
	process := p.Program(t, name, spec)
	var ready struct{ Address string }
	process.Next(t, &ready)
	return process, netip.MustParseAddrPort(ready.Address)
}

// anyPort is a free port of the place, for a program to listen on.
func (p *Place) anyPort() string { return netip.AddrPortFrom(p.Address, 0).String() }

// Greeter starts a greeter on a free port of the place.
func (p *Place) Greeter(t testing.TB, identity string) (*Process, netip.AddrPort) {
	t.Helper()
	return p.GreeterAt(t, identity, netip.AddrPortFrom(p.Address, 0))
}

// GreeterAt starts a greeter at an address.
func (p *Place) GreeterAt(t testing.TB, identity string, address netip.AddrPort) (*Process, netip.AddrPort) {
	t.Helper()
	return p.listening(t, programs.GreeterProgram, programs.GreeterSpec{Address: address.String(), Identity: identity})
}

// State asks the server for its counters.
func (o *Origin) State(t testing.TB) programs.OriginState {
	t.Helper()
	var state programs.OriginState
	o.Ask(t, "state", &state)
	return state
}

// Release lets the requests go that wait in /hold.
func (o *Origin) Release(t testing.TB) {
	t.Helper()
	var state programs.OriginState
	o.Ask(t, "release", &state)
}

// Recorder is a running recorder of package programs.
type Recorder struct {
	*Process
	Address netip.AddrPort
}

// Recorder starts a recorder on a free port of the place.
func (p *Place) Recorder(t testing.TB) *Recorder {
	t.Helper()
	process, address := p.listening(t, programs.RecorderProgram, programs.RecorderSpec{Address: p.anyPort()})
	return &Recorder{process, address}
}

// Take returns what has come since the last call, by connection.
func (r *Recorder) Take(t testing.TB) [][]byte {
	t.Helper()
	var taken programs.Recorded
	r.Ask(t, "take", &taken)
	return taken.Connections
}

// Auditor is a running auditor of package programs.
type Auditor struct {
	*Process
	Address netip.AddrPort
}

// Auditor starts an auditor on a free port of the place.
func (p *Place) Auditor(t testing.TB) *Auditor {
	t.Helper()
	process, address := p.listening(t, programs.AuditorProgram, programs.AuditorSpec{Address: p.anyPort()})
	return &Auditor{process, address}
}

// Take returns what has come since the last call.
func (a *Auditor) Take(t testing.TB) programs.Audited {
	t.Helper()
	var taken programs.Audited
	a.Ask(t, "take", &taken)
	return taken
}

// Witness starts a server that says what it was asked, on a free port of the place, and returns its address.
func (p *Place) Witness(t testing.TB) netip.AddrPort {
	t.Helper()
	_, address := p.listening(t, programs.WitnessProgram, programs.WitnessSpec{Address: p.anyPort()})
	return address
}

// Puppet is a running puppet of package programs.
type Puppet struct {
	*Process
	Address netip.AddrPort
}

// Puppet starts a puppet on a free port of the place.
func (p *Place) Puppet(t testing.TB) *Puppet {
	t.Helper()
	process, address := p.listening(t, programs.PuppetProgram, programs.PuppetSpec{Address: p.anyPort()})
	return &Puppet{process, address}
}

// Pull makes the puppet do one thing.
func (p *Puppet) Pull(t testing.TB, pull programs.Pull) programs.Pulled {
	t.Helper()
	line, err := json.Marshal(pull)
	if err != nil {
		t.Fatal(err)
	}
	var done programs.Pulled
	p.Ask(t, string(line), &done)
	if done.Error != "" {
		t.Fatalf("puppet: %s", done.Error)
	}
	return done
}

// Manners is a running server with manners of package programs.
type Manners struct {
	*Process
	Address netip.AddrPort
}

// Manners starts a server with manners on a free port of the place.
func (p *Place) Manners(t testing.TB, spec programs.MannersSpec) *Manners {
	t.Helper()
	spec.Address = p.anyPort()
	process, address := p.listening(t, programs.MannersProgram, spec)
	return &Manners{process, address}
}

// State asks the server for its counters.
func (m *Manners) State(t testing.TB) programs.MannersState {
	t.Helper()
	var state programs.MannersState
	m.Ask(t, "state", &state)
	return state
}

// Impostor starts a server that sends what it likes, on a free port of the place.
func (p *Place) Impostor(t testing.TB, spec programs.ImpostorSpec) netip.AddrPort {
	t.Helper()
	spec.Address = p.anyPort()
	_, address := p.listening(t, programs.ImpostorProgram, spec)
	return address
}

// Nginx describes an nginx server that answers with its identity, and serves
// the files of its document root.
type Nginx struct {
	Identity string
	// Port is a free one unless it is set.
	Port uint16
	// Sendfile makes nginx send files with sendfile(2).
	Sendfile bool
	// Root is a directory with files to serve under /files/.
	Root string
}

// RunningNginx is an nginx that listens.
type RunningNginx struct {
	*Process
	Address netip.AddrPort
}

// Nginx starts an nginx of one process, so that killing it kills it whole.
func (p *Place) Nginx(t testing.TB, n Nginx) *RunningNginx {
	t.Helper()
	if n.Port == 0 {
		n.Port = p.FreePort(t)
	}
	address := netip.AddrPortFrom(p.Address, n.Port)
	return p.runNginx(t, address, func(dir string) string { return n.config(dir, address) })
}

// runNginx starts an nginx with the configuration that config returns for its directory.
func (p *Place) runNginx(t testing.TB, address netip.AddrPort, config func(dir string) string) *RunningNginx {
	t.Helper()
	binary := Command(t, "nginx")
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config(dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	running := &RunningNginx{Process: p.Run(t, binary, "-p", dir, "-c", file), Address: address}
	Eventually(t, 10*time.Second, "nginx accepts connections", func() bool {
		if !running.Alive() {
			t.Fatalf("nginx ended:\n%s", running.Stderr())
		}
		return p.accepts(address)
	})
	return running
}

func (n Nginx) config(dir string, address netip.AddrPort) string {
	sendfile := "off"
	if n.Sendfile {
		sendfile = "on"
	}
	root := n.Root
	if root == "" {
		root = dir
	}
	var b strings.Builder
	fmt.Fprintf(&b, `daemon off; master_process off; user root; pid %[1]s/pid; error_log stderr warn;
events { worker_connections 8192; }
http {
	access_log off; sendfile %[2]s; keepalive_requests 1000000; keepalive_timeout 1h;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server {
		listen %[3]s backlog=4096;
		location / { default_type text/plain; return 200 "%[4]s"; }
		location /files/ { alias %[5]s/; }
	}
}
`, dir, sendfile, address, n.Identity, root)
	return b.String()
}

// NginxProxy starts an nginx between clients of the service address and one endpoint. It keeps connections to the endpoint
// open and passes bodies on as they come, as XLB does.
func (p *Place) NginxProxy(t testing.TB, service, endpoint netip.AddrPort) *RunningNginx {
	t.Helper()
	return p.runNginx(t, service, func(dir string) string {
		return fmt.Sprintf(`daemon off; master_process off; user root; pid %[1]s/pid; error_log stderr crit;
events { worker_connections 1024; }
http {
	access_log off; client_max_body_size 0;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	map $http_upgrade $hop { default upgrade; "" ""; }
	upstream endpoint { server %[3]s max_fails=0; keepalive 16; }
	server {
		listen %[2]s;
		location / {
			proxy_pass http://endpoint; proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off;
			proxy_set_header Host $http_host; proxy_set_header Connection $hop; proxy_set_header Upgrade $http_upgrade;
		}
	}
}
`, dir, service, endpoint)
	})
}

// accepts tells whether somebody listens at an address of the place.
func (p *Place) accepts(address netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var conn net.Conn
	err := p.enter(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address.String())
		return err
	})
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// Identities names n servers.
func Identities(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("server-%c", 'a'+i))
	}
	return names
}

// Moody is a server whose behaviour a test changes as it runs.
type Moody struct {
	*Process
	Address  netip.AddrPort
	Identity string
}

// Moody starts such a server, in a good mood.
func (p *Place) Moody(t testing.TB, identity string) *Moody {
	t.Helper()
	m := &Moody{Identity: identity}
	m.Process, m.Address = p.listening(t, programs.MoodyProgram, programs.MoodySpec{
		Address: p.anyPort(), Identity: identity, Mood: "200",
	})
	return m
}

// Become changes its mood.
func (m *Moody) Become(t testing.TB, mood programs.Mood) {
	t.Helper()
	var r programs.MoodyReport
	m.Ask(t, string(mood), &r)
}

// Report tells what it has been asked.
func (m *Moody) Report(t testing.TB) programs.MoodyReport {
	t.Helper()
	var r programs.MoodyReport
	m.Ask(t, "report", &r)
	return r
}

// Hasty starts a server that closes connections which are idle for a random time.
func (p *Place) Hasty(t testing.TB, idle time.Duration, looks bool) (*Process, netip.AddrPort) {
	t.Helper()
	return p.HastyAs(t, programs.HastySpec{Idle: idle, Looks: looks})
}

// HastyAs starts one as it is described, but for its address.
func (p *Place) HastyAs(t testing.TB, spec programs.HastySpec) (*Process, netip.AddrPort) {
	t.Helper()
	spec.Address = p.anyPort()
	return p.listening(t, programs.HastyProgram, spec)
}

// Pacer is a server that takes its time.
type Pacer struct {
	*Process
	Address netip.AddrPort
}

// Pacer starts such a server on a free port of the place.
func (p *Place) Pacer(t testing.TB) *Pacer {
	t.Helper()
	process, address := p.listening(t, programs.PacerProgram, programs.PacerSpec{Address: p.anyPort()})
	return &Pacer{process, address}
}

// Conns tells of the connections that it has had.
func (p *Pacer) Conns(t testing.TB) []programs.PacerConn {
	t.Helper()
	var r programs.PacerReport
	p.Ask(t, "report", &r)
	return r.Conns
}
