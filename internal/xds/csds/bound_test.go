// SPDX-License-Identifier: Apache-2.0

package csds

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/xlb-project/xlb/internal/limits"
)

// client asks a server of which a stream may be silent for that long.
func client(t *testing.T, silence time.Duration) statusv3.ClientStatusDiscoveryServiceClient {
	t.Helper()
	s := httptest.NewUnstartedServer(newHandler(&server{clients: func() []Client { return nil }, silence: silence}))
	s.Config.Protocols = cleartext()
	s.Start()
	conn, err := grpc.NewClient(s.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Close()
	})
	return statusv3.NewClientStatusDiscoveryServiceClient(conn)
}

// open begins a stream that has been answered once.
func open(t *testing.T, c statusv3.ClientStatusDiscoveryServiceClient) statusv3.ClientStatusDiscoveryService_StreamClientStatusClient {
	t.Helper()
	stream, err := c.StreamClientStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask(t, stream)
	return stream
}

func ask(t *testing.T, stream statusv3.ClientStatusDiscoveryService_StreamClientStatusClient) {
	t.Helper()
	if err := stream.Send(&statusv3.ClientStatusRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
}

func requireEnd(t *testing.T, stream statusv3.ClientStatusDiscoveryService_StreamClientStatusClient, want codes.Code) {
	t.Helper()
	if _, err := stream.Recv(); status.Code(err) != want {
		t.Errorf("the stream ended with %v, want %s", err, want)
	}
}

func TestSilentStreamsEnd(t *testing.T) {
	requireEnd(t, open(t, client(t, 10*time.Millisecond)), codes.DeadlineExceeded)
}

// One more takes the place of the one on which nothing was asked for the longest time.
func TestStreamsAreBounded(t *testing.T) {
	c := client(t, limits.ClientStatus.Idle)
	var all []statusv3.ClientStatusDiscoveryService_StreamClientStatusClient
	for range limits.ClientStatus.Streams {
		all = append(all, open(t, c))
	}
	ask(t, all[0])
	last := open(t, c)
	requireEnd(t, all[1], codes.ResourceExhausted)
	for _, stream := range append(all[2:], all[0], last) {
		ask(t, stream)
	}
	if _, err := c.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{}); err != nil {
		t.Errorf("beside streams: %v", err)
	}
}

func TestOldestStreamGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s streams
		first := s.begin()
		for range 10 * limits.ClientStatus.Streams {
			time.Sleep(time.Millisecond)
			s.asked(first)
			s.begin()
		}
		select {
		case <-first.ended:
			t.Error("one that is used was ended")
		default:
		}
		if len(s.open) != limits.ClientStatus.Streams {
			t.Errorf("%d are open", len(s.open))
		}
		s.end(first)
		if len(s.open) != limits.ClientStatus.Streams-1 {
			t.Errorf("%d are open without one", len(s.open))
		}
	})
}

func cleartext() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// A question has a few hundred bytes; none is read that is longer than the table of limits lets it be.
func TestLongQuestionsAreRefused(t *testing.T) {
	c := client(t, limits.ClientStatus.Idle)
	for size, want := range map[int]codes.Code{limits.ClientStatus.BodyBytes / 2: codes.OK, 2 * limits.ClientStatus.BodyBytes: codes.ResourceExhausted} {
		_, err := c.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{Node: &corev3.Node{Id: strings.Repeat("a", size)}})
		if got := status.Code(err); got != want {
			t.Errorf("a question of %d bytes: got %v, want %v", size, err, want)
		}
	}
}
