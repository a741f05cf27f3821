// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xlb-project/xlb/internal/heels"
	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// A pin directory is one agent's.
func TestCheckFindsTwoAgentsOnOnePinDirectory(t *testing.T) {
	h := newRig(t).client
	c := parse(t, "eth0", clientText)
	h.pin = filepath.Join(heelstest.BPFFS(t), "pins")
	h.findings(c, h.pin)["agents"].wants(t, Fine, "none has left anything")
	h.start(c)
	h.findings(c, h.pin)["agents"].wants(t, Fine, "none runs")
	first := agentBeside(t, h.pin)
	h.findings(c, h.pin)["agents"].wants(t, Fine, fmt.Sprintf("process %d (sleep) runs", first))
	second := agentBeside(t, h.pin)
	found := h.findings(c, h.pin)["agents"]
	found.wants(t, Missing, h.pin, fmt.Sprintf("process %d (sleep)", first), "one agent's", fmt.Sprintf("end all but process %d", second), "--pin")
}

// One of another network namespace cannot be succeeded while its programs are in force.
func TestCheckFindsAnAgentOfAnotherNamespace(t *testing.T) {
	r := newRig(t)
	r.client.agent(clientText)
	pid := agentBeside(t, r.client.pin)
	c := parse(t, "eth0", serverText)
	found := r.server.findings(c, r.client.pin)
	found["agents"].wants(t, Missing, r.client.pin, fmt.Sprintf("process %d (sleep) of another network namespace", pid), "interface eth0", "--pin", "xlb heels detach")
	found["programs eth0"].wants(t, Fine)
	err := heelstest.Enter(r.server.NS, func() error {
		_, err := heels.Start(c, r.client.pin, testCgroup)
		return err
	})
	if err == nil {
		t.Error("an agent starts where the check says that it cannot")
	}
	r.client.Unplug()
	r.server.findings(c, r.client.pin)["agents"].wants(t, Fine)
}

// An agent that starts waits for the lock: whoever has it is named.
func TestCheckNamesWhoHasTheLock(t *testing.T) {
	h := newRig(t).client
	c := parse(t, "eth0", clientText)
	pin := filepath.Join(heelstest.BPFFS(t), "pins")
	h.findings(c, pin)["lock"].wants(t, Fine)
	lock, err := pins.LockDir(pin)
	if err != nil {
		t.Fatal(err)
	}
	h.findings(c, pin)["lock"].wants(t, Missing, pin, fmt.Sprintf("process %d (check.test)", os.Getpid()), "locked", "wait")
	lock.Close()
	h.findings(c, pin)["lock"].wants(t, Fine, "free")
}

// An interface that was made again while no agent ran has no programs.
func TestCheckFindsAnInterfaceWithoutPrograms(t *testing.T) {
	for _, tt := range []struct {
		role     heels.Role
		text     string
		programs string
	}{{heels.ClientRole, clientText, "client_egress, client_ingress"}, {heels.ServerRole, serverText, "server_egress, server_ingress"}} {
		t.Run(string(tt.role), func(t *testing.T) {
			r := newRig(t)
			h, address := r.client, testClient
			if tt.role == heels.ServerRole {
				h, address = r.server, testServer
			}
			c := parse(t, "eth0", tt.text)
			h.pin = filepath.Join(heelstest.BPFFS(t), "pins")
			h.findings(c, h.pin)["programs eth0"].wants(t, Fine, "none is in force yet")
			end := h.start(c)
			h.findings(c, h.pin)["programs eth0"].wants(t, Fine, "all are in force")
			end()
			h.Unplug()
			h.findings(c, h.pin)["programs eth0"].wants(t, Missing, tt.programs, "eth0 was deleted")
			r.Connect(h.Host, address)
			h.findings(c, h.pin)["programs eth0"].wants(t, Missing, tt.programs, "eth0 was deleted, or made again", "xlb heels run --pin "+h.pin)
			h.start(c)
			h.findings(c, h.pin)["programs eth0"].wants(t, Fine, "all are in force")
			other := parse(t, "eth0", clientText+serverText)
			h.findings(other, h.pin)["programs eth0"].wants(t, Attention, "another configuration", "start the agent again")
		})
	}
}

// An interface that a running agent attends to is missed for a moment only.
func TestCheckWaitsForTheAgentThatAttaches(t *testing.T) {
	r := newRig(t)
	r.client.agent(clientText)
	c := parse(t, "eth0", clientText)
	for range 3 {
		r.client.Unplug()
		r.Connect(r.client.Host, testClient)
		r.client.findings(c, r.client.pin)["programs eth0"].wants(t, Fine, "all are in force")
	}
}

// In confirm mode what is sent to clients goes by the interface that the routes name for them, which needs programs.
func TestCheckFindsClientsBehindAnotherInterface(t *testing.T) {
	h := newRig(t).server
	heelstest.Within(t, h.NS, func() error {
		second := netlink.NewVeth(netlink.LinkAttrs{Name: "eth1"})
		second.PeerName = "end1"
		return errors.Join(netlink.LinkAdd(second), heelstest.LinkUp("eth1"), heelstest.LinkUp("end1"), heelstest.AddAddr("eth1", "10.88.0.1/16"), heelstest.AddAddr("eth1", "10.77.200.1/24"))
	})
	vip := func(interfaces, clients, more string) *settings.Config {
		return parse(t, interfaces, "server:\n  vips: [{ vip: 10.77.0.100:80, port: 80, mode: rewritten, "+more+"balancers: [10.77.1.0/24], clients: ["+clients+"] }]\n")
	}
	const name = "confirm " + testVIP + ":80"
	for _, tt := range []struct {
		name, interfaces, clients, status string
		detail                            []string
	}{
		{"one interface", "eth0", "10.77.3.0/24", Fine, []string{"reached through eth0"}},
		{"another with programs", "eth0, eth1", "10.77.3.0/24, 10.88.3.0/24", Fine, []string{"reached through eth0, eth1"}},
		{"another", "eth0", "10.77.3.0/24, 10.88.3.0/24", Attention, []string{"clients in 10.88.3.0/24", "through eth1", "not in interfaces"}},
		{"a single client there", "eth0", "10.88.3.7/32", Attention, []string{"clients in 10.88.3.7/32", "through eth1"}},
		{"a part of the prefix", "eth0", "10.77.0.0/16", Attention, []string{"clients in 10.77.0.0/16", "through eth1"}},
		{"everybody, by configured interfaces", "eth0", "0.0.0.0/0", Fine, []string{"reached through eth0"}},
		{"no route", "eth0", "192.0.2.0/24", Fine, []string{"no route to clients in 192.0.2.0/24"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.findings(vip(tt.interfaces, tt.clients, "confirm: true, "), filepath.Join(heelstest.BPFFS(t), "pins"))[name].wants(t, tt.status, tt.detail...)
		})
	}
	if _, ok := h.findings(vip("eth0", "10.88.3.0/24", ""), filepath.Join(heelstest.BPFFS(t), "pins"))[name]; ok {
		t.Error("a VIP that is not in confirm mode is looked at")
	}
}
