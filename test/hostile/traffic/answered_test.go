// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A server that a client is connected to without a balancer, and that ends the connection in place of its second answer: that nobody answers is a
// violation, unless something excuses it.
func TestExchangeWithoutAnAnswerIsAViolation(t *testing.T) {
	for _, tt := range []struct {
		name     string
		act      string
		mayBreak bool
		want     int
	}{
		{"nothing excuses it", ActAnswers, false, 1},
		{"others may have ended it", ActAnswers, true, 0},
		{"the one before was answered early", ActEarly, false, 0},
		{"its own server is no honest one", ActEndsBeforeBody, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go answerOnce(listener)
			spec := ClientSpec{
				Address: listener.Addr().String(), Seed: 1, Directory: t.TempDir(), Workers: 1, Requests: 2, Patience: 20 * time.Second,
				Kinds: []string{KindWhole}, Acts: []string{tt.act}, Pieces: []string{PiecesOne}, Body: [2]int{-1, -1}, MayBreak: tt.mayBreak,
			}
			clients, err := NewClients(spec, nil)
			if err != nil {
				t.Fatal(err)
			}
			clients.Run(context.Background())
			found, err := ReadViolations(spec.Directory)
			if err != nil || len(found) != tt.want {
				t.Errorf("%d violations, %v: %v; want %d", len(found), err, found, tt.want)
			}
			if got := clients.Report().Counts; got[Right] != 1 || got["broken in the head"] != 1 {
				t.Errorf("counts %v, want an exchange that is right and one that is broken", got)
			}
		})
	}
}

// answerOnce gives the first request its response.
func answerOnce(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for first := true; ; first = false {
		lines, err := readHead(reader)
		if err != nil || !first {
			return
		}
		id, _ := parseID(field(lines, idField))
		order, _ := parseOrder(field(lines, orderField))
		b, _ := order.response(1, id)
		if _, err := io.Copy(conn, strings.NewReader(string(b))); err != nil {
			return
		}
	}
}

// A server that closes promptly does so behind a whole answer, and its client finds each end.
func TestPromptClosesAreBehindAnswers(t *testing.T) {
	directory := t.TempDir()
	server, err := Listen(ServerSpec{
		Address: "127.0.0.1:0", Name: "server", Seed: 1, Directory: directory, Patience: 20 * time.Second, Prompt: time.Nanosecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { _ = server.Serve() }()
	clients, err := NewClients(ClientSpec{
		Address: server.Address(), Seed: 1, Directory: directory, Workers: 1, Requests: 100, Patience: 20 * time.Second,
		Kinds: []string{KindWhole}, Acts: []string{ActAnswers}, Pieces: []string{PiecesOne}, Body: [2]int{-1, -1}, MayBreak: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	clients.Run(context.Background())
	found, err := ReadViolations(directory)
	if err != nil || len(found) > 0 {
		t.Errorf("violations: %v, %v; want none", found, err)
	}
	closes := server.Report().Counts["prompt closes"]
	// The last connection may end because all requests are made.
	if closes == 0 || int64(clients.conns)-closes > 1 {
		t.Errorf("%d prompt closes of %d connections, want each but the last", closes, clients.conns)
	}
	if right, served := clients.Report().Counts[Right], server.Report().Counts[Exchanges]; right != served {
		t.Errorf("%d answers were right, %d requests served", right, served)
	}
}
