// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strings"
	"testing"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

func TestUnknownTypesAreShownByName(t *testing.T) {
	const unknown = "type.googleapis.com/istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig"
	body, err := anypb.New(&hcmv3.HttpFilter{Name: "istio.alpn", ConfigType: &hcmv3.HttpFilter_TypedConfig{
		TypedConfig: &anypb.Any{TypeUrl: unknown, Value: []byte{10, 0}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(inJSON(body)); !strings.Contains(got, unknown) || !strings.Contains(got, "istio.alpn") {
		t.Errorf("got %s", got)
	}
	if got := inJSON(&anypb.Any{TypeUrl: "x/no name", Value: []byte{10, 0}}); got != nil {
		t.Errorf("what is no type is shown: %s", got)
	}
}
