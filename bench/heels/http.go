// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/wrk"
)

const (
	scriptFile = "wrk.lua"
	bodies     = "bodies"
	nginxFile  = "nginx.conf"
)

// nginxConfig is a server of files: one worker, nothing written, connections never ended by a count. %[1]s is the scratch directory, %[2]d the port.
const nginxConfig = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
    access_log off;
    default_type text/plain;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    keepalive_time 24h;
    sendfile on;
    tcp_nopush on;
    client_body_temp_path %[1]s/client-body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
    server {
        listen %[2]d backlog=4096;
        root %[1]s/bodies;
    }
}
`

// scratch makes the directory for files. Workers of nginx run as another user, so it is readable by all.
func scratch() (string, error) {
	dir, err := os.MkdirTemp("", "xlb-bench-")
	if err != nil {
		return "", err
	}
	err = errors.Join(os.Chmod(dir, 0o755),
		os.WriteFile(filepath.Join(dir, scriptFile), wrk.Script, 0o644),
		os.Mkdir(filepath.Join(dir, bodies), 0o755))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

func (l load) file() string { return strconv.Itoa(int(l.Answer)) }

// serveHTTP starts nginx, and waits until it answers.
func (p *place) serveHTTP(ctx context.Context, l load) error {
	dir, server := p.options.scratch, p.Servers[0]
	config := fmt.Sprintf(nginxConfig, dir, p.kind.serverPort())
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, nginxFile), []byte(config), 0o644),
		os.WriteFile(filepath.Join(dir, bodies, l.file()), bytes.Repeat([]byte("x"), int(l.Answer)), 0o644))
	if err != nil {
		return err
	}
	process, err := server.Start("nginx", p.options.NGINX, "-c", filepath.Join(dir, nginxFile), "-e", "stderr")
	if err != nil {
		return err
	}
	p.closes = append(p.closes, process.Stop)
	return ready(ctx, process, func() error {
		_, err := server.Get(fmt.Sprintf("http://%s/%s", netip.AddrPortFrom(server.Address(), p.kind.serverPort()), l.file()))
		return err
	})
}

// generateHTTP runs wrk, which takes whole seconds. It looks when the load ends: afterwards wrk sorts out its histogram, which is no cost of a
// request.
func (p *place) generateHTTP(ctx context.Context, l load, target netip.AddrPort, d time.Duration) (f figures, after sight, err error) {
	seconds := int(math.Ceil(d.Seconds()))
	args := []string{
		"--threads", "1", "--connections", strconv.Itoa(l.Connections), "--duration", fmt.Sprintf("%ds", seconds),
		"--script", filepath.Join(p.options.scratch, scriptFile),
	}
	if l.Requests == 1 {
		args = append(args, "--header", "Connection: close")
	}
	process, err := p.Client.Start("wrk", p.options.Wrk, append(args, fmt.Sprintf("http://%s/%s", target, l.file()))...)
	if err != nil {
		return f, after, err
	}
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-ctx.Done():
		return f, after, errors.Join(ctx.Err(), process.Stop())
	}
	after, err = p.look()
	if err != nil {
		return f, after, errors.Join(err, process.Stop())
	}
	ctx, cancel := context.WithTimeout(ctx, waitSlack)
	defer cancel()
	out, err := process.Wait(ctx)
	if err != nil {
		return f, after, err
	}
	r, err := wrk.Parse(out, l.Connections)
	return l.figures(r), after, err
}

func (l load) figures(r loadgen.Report) figures {
	f := figures{requests: r.Requests, connections: int64(l.Connections), errors: r.Errors, rate: r.Rate()}
	if l.Requests == 1 {
		f.connections = r.Requests
	}
	f.goodput = f.rate * float64(l.Answer)
	f.p50, f.p99 = float64(r.Latency.Quantile(0.5)), float64(r.Latency.Quantile(0.99))
	return f
}
