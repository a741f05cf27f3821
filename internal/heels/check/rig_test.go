// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels"
	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// testCgroup is where the agents of these tests attach.
var testCgroup string

func TestMain(m *testing.M) {
	code, err := heelstest.InCgroup(func(cgroup string) int {
		testCgroup = cgroup
		return m.Run()
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The addresses of the rig.
const (
	testVIP    = "10.77.0.100"
	testServer = "10.77.2.1"
	testClient = "10.77.3.1"
)

const clientText = `
client:
  vips: [{ vip: 10.77.0.100:80, backends: [10.77.2.0/24] }]
`

const serverText = `
server:
  vips: [{ vip: 10.77.0.100:80, port: 80, mode: rewritten, balancers: [10.77.1.0/24], clients: [10.77.3.0/24] }]
`

func parse(t *testing.T, interfaces, text string) *settings.Config {
	t.Helper()
	c, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: ["+interfaces+"]\ncgroup: "+testCgroup+"\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rig is a client and a server on one wire.
type rig struct {
	*heelstest.Wire
	client, server *host
}

// host is a network namespace with one interface, eth0, and the pins of its agents.
type host struct {
	*heelstest.Host
	t   *testing.T
	pin string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	w := heelstest.NewWire(t)
	plug := func(name, address string) *host { return &host{Host: w.Plug(name, address), t: t} }
	return &rig{w, plug("client", testClient), plug("s1", testServer)}
}

// agent starts an agent with a text for eth0.
func (h *host) agent(text string) {
	h.t.Helper()
	h.start(parse(h.t, "eth0", text))
}

// start starts an agent on the host. What it returns ends the agent, and leaves in force what the agent has pinned.
func (h *host) start(c *settings.Config) (end func()) {
	h.t.Helper()
	if h.pin == "" {
		h.pin = filepath.Join(heelstest.BPFFS(h.t), h.Name)
	}
	var a *heels.Agent
	heelstest.Within(h.t, h.NS, func() (err error) {
		a, err = heels.Start(c, h.pin, testCgroup)
		return err
	})
	end = sync.OnceFunc(a.Close)
	h.t.Cleanup(func() {
		end()
		if err := detach(h.pin); err != nil {
			h.t.Error(err)
		}
	})
	return end
}

// detach takes away what agents have left in a pin directory, once for all of them.
func detach(pin string) error {
	k, err := heels.Open(pin)
	if errors.Is(err, heels.ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	defer k.Close()
	return k.Detach(true)
}

// findings are what the check says of a host, by name, but for the kernel, which takes seconds.
func (h *host) findings(c *settings.Config, pin string) map[string]Finding {
	h.T.Helper()
	all := map[string]Finding{}
	heelstest.Within(h.T, h.NS, func() error {
		for _, f := range machine(c, pin) {
			all[f.Name] = f
		}
		return nil
	})
	return all
}

// wants demands that a finding names things, and what to do about them.
func (f Finding) wants(t *testing.T, status string, detail ...string) {
	t.Helper()
	if f.Status != status || (f.Remedy == "") != (status == Fine) {
		t.Errorf("%+v, want %s", f, status)
	}
	for _, text := range detail {
		if !strings.Contains(f.Detail+"\n"+f.Remedy, text) {
			t.Errorf("%+v does not say %q", f, text)
		}
	}
}

// beside has another process hold files open.
func beside(t *testing.T, files ...*os.File) int {
	t.Helper()
	other := exec.Command("sleep", "60")
	other.ExtraFiles = files
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	return other.Process.Pid
}

// agentBeside is another process that has the maps of a host's agent open.
func agentBeside(t *testing.T, pin string) int {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(filepath.Join(pin, kernel.MapControl), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "map")
	pid := beside(t, file)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return pid
}
