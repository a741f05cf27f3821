// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// optionECN is TCPI_OPT_ECN: both ends have agreed on it.
const optionECN = 8

// A SYN that asks for explicit congestion notification has two more flags, and its SYN-ACK one.
func TestClientsThatAskForECNOffer(t *testing.T) {
	for _, tt := range reuses {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			server, client := r.plainPair(tt.mode, tt.vip)
			r.client.Sysctl("ipv4/tcp_ecn", "1")
			r.servers[0].Sysctl("ipv4/tcp_ecn", "1")
			r.servers[0].listen(":80", answerAddress)
			c, err := r.client.dial("[" + tt.vip + "]:80")
			if err != nil {
				t.Fatal(err, dump(t, client), dump(t, server))
			}
			defer c.Close()
			if _, err := c.Read(make([]byte, 64)); err != nil {
				t.Fatal(err)
			}
			echo(t, c, 1<<16)
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			var info *unix.TCPInfo
			failed := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
			if err := errors.Join(failed, err); err != nil {
				t.Fatal(err)
			}
			// What is sent again does not ask.
			if info.Total_retrans != 0 || info.Options&optionECN == 0 {
				t.Errorf("%d segments were sent again, options %#x; want none, and ECN", info.Total_retrans, info.Options)
			}
			if client.count(t, "direct") != 1 || server.count(t, "accepted") != 1 {
				t.Errorf("the connection goes through the balancer: %v %v", dump(t, client), dump(t, server))
			}
		})
	}
}
