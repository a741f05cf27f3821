// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/test/tcptest"
)

func TestLags(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, int64(ms)*int64(time.Millisecond)) }
	flips := []Flip{{at(100), true}, {at(600), false}, {at(1100), true}, {at(1600), false}, {at(2100), true}}
	tests := []struct {
		name       string
		seen       []Sight
		wantLags   load.Histogram
		wantMissed int
	}{
		{"nothing seen", nil, load.Histogram{}, 0},
		{"all in time", []Sight{{at(0), false}, {at(105), true}, {at(620), false}, {at(1101), true}, {at(1640), false}}, load.Histogram{5000: 1, 20000: 1, 1000: 1, 40000: 1}, 0},
		{"one too late", []Sight{{at(0), false}, {at(105), true}, {at(1640), false}}, load.Histogram{5000: 1, 40000: 1}, 2},
		{"the probe came later", []Sight{{at(700), false}, {at(1101), true}, {at(1640), false}}, load.Histogram{1000: 1, 40000: 1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lags, missed := Lags(flips, Sights{Seen: tt.seen})
			if diff := cmp.Diff(tt.wantLags, lags); diff != "" || missed != tt.wantMissed {
				t.Errorf("missed %d, want %d; lags (-want +got):\n%s", missed, tt.wantMissed, diff)
			}
		})
	}
}

// A client that takes everything at once sees changes at the rate asked for, one endpoint each, and the report has how long it took to answer.
func TestChangesAreSentAndAnswersCounted(t *testing.T) {
	o := Options{
		Listen: tcptest.FreeAddress(t), Report: tcptest.FreeAddress(t), Front: netip.MustParseAddrPort("127.80.0.1:80"), First: netip.MustParseAddrPort("127.90.0.1:1"), Other: netip.MustParseAddrPort("127.95.0.1:1"),
		Services: 20, Endpoints: 3, Rate: 50,
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, o) }()
	conn, err := grpc.NewClient(o.Listen.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resource.EndpointType}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for seen < 20+1+10 {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		seen += len(r.GetResources())
		if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resource.EndpointType, ResponseNonce: r.GetNonce()}); err != nil {
			t.Fatal(err)
		}
	}
	// The last answer is on its way.
	var acknowledged int64
	for end := time.Now().Add(10 * time.Second); acknowledged == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		r, err := Fetch(ctx, get, o)
		if err != nil {
			t.Fatal(err)
		}
		acknowledged += r.Acknowledged.Count()
	}
	if acknowledged == 0 {
		t.Error("no change was counted as taken")
	}
	cancel()
	<-served // Stopped by ctx: whatever it returns is that.
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
