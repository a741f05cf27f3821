// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
)

// patience bounds the wait for one server or balancer.
const patience = time.Minute

// nginxFile has an nginx that is one process: 1,000 of them take some gigabytes less than 1,000 of a Go program.
func nginxFile(dir string) string {
	return fmt.Sprintf(`daemon off;
master_process off;
error_log stderr crit;
events { worker_connections 1024; }
http {
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    keepalive_time 24h;
    client_body_temp_path %[1]s/body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
    server {
        listen %[2]d backlog=4096;
        location / { return 200; }
    }
}
`, dir, ServerPort)
}

// nginxArgs are of one whose file of its process id has a name of its own: nginx removes that file at its end.
func (n *Net) nginxArgs(name string) []string {
	return []string{"-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf"), "-e", "stderr", "-g", "pid " + filepath.Join(n.dir, name+".pid") + ";"}
}

// StartServerOn starts a server on a host of the lab, and waits until it answers there.
func (n *Net) StartServerOn(ctx context.Context, host lab.Host) error {
	_, err := n.Start(lab.Command{Name: "nginx", Path: n.tools.NGINX, Args: n.nginxArgs(fmt.Sprintf("host%d", host)), Role: lab.Endpoint, Host: host})
	if err != nil {
		return err
	}
	return n.await(ctx, "the server", func() error {
		response, err := n.HTTPClientOn(host).Get("http://" + netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ServerPort).String())
		if err == nil {
			err = response.Body.Close()
		}
		return err
	})
}

// chainAwait waits for a pod's server, from within the pod.
func chainAwait(ctx context.Context, p *Pod) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = lab.Within(p.ns, func() (err error) {
		have, err := chain.Await(ctx, []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ServerPort)})
		at = have.At
		return err
	})
	return at, err
}

// await waits until done returns nil.
func (n *Net) await(ctx context.Context, what string, done func() error) error {
	const pace = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := lab.Poll(ctx, pace, done); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}
