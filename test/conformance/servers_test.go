// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/fuzz/grammar"
)

// Servers that say in the field X-Asked what they were asked. Each takes its address and its port.
const (
	pythonServer = `
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def read_chunks(self):
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            self.rfile.read(size)
            if size == 0:
                while self.rfile.readline() != b"\r\n":
                    pass
                return
            self.rfile.readline()

    def answer(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            self.read_chunks()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("X-Asked", "%s %s %s" % (self.command, self.requestline.split(" ")[1], self.headers.get("Host", "")))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def log_message(self, *args):
        pass

ThreadingHTTPServer.request_queue_size = 1024
ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
`
	nodeServer = `
const server = require('node:http').createServer((q, a) => {
  q.on('data', () => {});
  q.on('end', () => {
    a.setHeader('X-Asked', q.method + ' ' + q.url + ' ' + (q.headers.host || ''));
    a.setHeader('Content-Length', '0');
    a.end();
  });
});
server.on('upgrade', (q, s) => s.end());
server.listen(Number(process.argv[3]), process.argv[2]);
`
	nginxServer = `daemon off; master_process off; user root; pid %[1]s/pid; error_log stderr crit;
events { worker_connections 1024; }
http {
	access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	keepalive_requests 100000; ignore_invalid_headers off; underscores_in_headers on;
	server {
		listen %[2]s;
		add_header X-Asked "$request_method $request_uri $http_host" always;
		return 200;
	}
}
`
)

// serversAgree gives bytes that were sent to an endpoint to servers that read less strictly. Each finds the requests in them that the letter does;
// some it may refuse, which ends the connection.
func serversAgree(t *testing.T, place *harness.Place, streams [][]byte) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	address := func() netip.AddrPort { return netip.AddrPortFrom(place.Address, place.FreePort(t)) }
	run := func(name, program, file string) {
		a := address()
		place.Run(t, harness.Command(t, program), file, a.Addr().String(), fmt.Sprint(a.Port()))
		serverAgrees(t, place, name, a, streams)
	}
	run("http.server", "python3", write("server.py", pythonServer))
	run("Node", "node", write("server.js", nodeServer))
	a := address()
	place.Run(t, harness.Command(t, "nginx"), "-p", dir, "-c", write("nginx.conf", fmt.Sprintf(nginxServer, dir, a)))
	serverAgrees(t, place, "nginx", a, streams)
}

// probeLast is what each server is asked behind what it is given.
const probeLast = "GET /last HTTP/1.1\r\nHost: last\r\nConnection: close\r\n\r\n"

func serverAgrees(t *testing.T, place *harness.Place, name string, address netip.AddrPort, streams [][]byte) {
	t.Helper()
	awaitServer(t, place, name, address)
	var sends []programs.RawSend
	var wants [][]string
	for _, stream := range streams {
		// One request each: what is refused must not hide what follows.
		for all, _ := grammar.Messages(stream); len(all) > 0; all = all[1:] {
			m := all[0]
			sends = append(sends, programs.RawSend{Address: address.String(), Bytes: append(bytes.Clone(stream[:m.End]), probeLast...)})
			wants = append(wants, []string{m.Method + " " + m.Target + " " + m.Host, "GET /last last"})
			stream = stream[m.End:]
		}
	}
	var report programs.RawReport
	place.Program(t, programs.RawProgram, programs.RawSpec{Sends: sends, Quiet: 10 * time.Second, Concurrency: 16}).Next(t, &report)
	whole := 0
	for i, a := range report.Answers {
		got := questions(a.Bytes)
		if len(got) > len(wants[i]) || !slices.Equal(got, wants[i][:len(got)]) {
			t.Errorf("%s: %q was read as %q, want %q", name, sends[i].Bytes, got, wants[i])
		}
		if len(got) == len(wants[i]) {
			whole++
		}
	}
	t.Logf("%s: %d of %d requests taken", name, whole, len(sends))
	if whole < len(sends)/2 {
		t.Errorf("%s: took %d of %d requests: this shows nothing", name, whole, len(sends))
	}
}

func awaitServer(t *testing.T, place *harness.Place, name string, address netip.AddrPort) {
	t.Helper()
	client := place.HTTPClient()
	defer client.CloseIdleConnections()
	harness.Eventually(t, 10*time.Second, name+" answers", func() bool {
		response, err := client.Get("http://" + address.String() + "/")
		return err == nil && response.Body.Close() == nil
	})
}

// questions are what a server says it was asked, up to the first that it has refused.
func questions(answers []byte) []string {
	var all []string
	r := bufio.NewReader(bytes.NewReader(answers))
	for {
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return all
		}
		_, err = io.Copy(io.Discard, response.Body)
		switch response.Body.Close(); {
		case err != nil, response.StatusCode > http.StatusOK:
			return all
		case response.StatusCode == http.StatusOK:
			all = append(all, response.Header.Get("X-Asked"))
		}
	}
}
