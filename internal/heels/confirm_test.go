// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func confirmText(port string) string {
	return strings.Replace(serverText("rewritten", port), "mode: rewritten,", "mode: rewritten, confirm: true,", 1)
}

// answerWhom waits for a line, then does as tell.
func answerWhom(c net.Conn) {
	if _, err := bufio.NewReader(io.LimitReader(c, 2)).ReadString('\n'); err != nil {
		c.Close()
		return
	}
	tell(c)
}

// In confirm mode the balancer sees the handshake, and a reset when all is over; both ends see each other's right address.
func TestConfirmLeavesTheHandshakeToTheBalancer(t *testing.T) {
	for _, port := range []string{"80", "8080"} {
		for _, listen := range []string{"tcp4", "both families"} {
			t.Run(port+" "+listen, func(t *testing.T) {
				r := newRig(t, testServer1)
				r.nat("80", testServer1+":"+port, true)
				at := ":" + port
				if listen == "tcp4" {
					at = "0.0.0.0:" + port
				}
				server := r.servers[0].agent(confirmText(port))
				r.servers[0].listen(at, answerWhom)
				client := r.client.agent(clientText)
				c, err := r.client.dial(testVIP + ":80")
				if err != nil {
					t.Fatal(err, dump(t, client), dump(t, server))
				}
				defer c.Close()
				if _, err := c.Write([]byte("?\n")); err != nil {
					t.Fatal(err)
				}
				if seen, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(seen) != c.LocalAddr().String() {
					t.Fatalf("server sees %q, want %s (%v) %v %v", seen, c.LocalAddr(), err, dump(t, client), dump(t, server))
				}
				echo(t, c, 4<<20)
				for a, remote := range map[*Agent]string{client: testVIP + ":80", server: ""} {
					conns, err := a.Connections()
					if err != nil || len(conns) != 1 || conns[0].State != Direct || remote != "" && conns[0].Remote.String() != remote {
						t.Errorf("connections %+v, %v", conns, err)
					}
				}
				if in, out := r.in.Load(), r.out.Load(); in != 3 || out != 3 {
					t.Errorf("%d segments came to the balancer, %d left it; want the handshake alone %v %v", in, out, dump(t, client), dump(t, server))
				}
				c.Close()
				eventually(t, "no connection left", func() bool { return live(t, client)+live(t, server) == 0 })
				eventually(t, "the balancer is told", func() bool { return r.in.Load() == 4 && r.out.Load() == 4 })
				time.Sleep(2 * tellEvery)
				if in, out := r.in.Load(), r.out.Load(); in != 4 || out != 4 {
					t.Errorf("%d segments came to the balancer, %d left it; want the handshake and a reset %v %v", in, out, dump(t, client), dump(t, server))
				}
			})
		}
	}
}
