// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originalv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// listenerFilters are those of a listener.
type listenerFilters struct{ original, tls, http bool }

func (t *translator) listenerFilters(l *listenerv3.Listener, path string) listenerFilters {
	var out listenerFilters
	for i, f := range l.GetListenerFilters() {
		content, place := f.GetTypedConfig(), problem.At(path+".listener_filters", i)+".typed_config"
		switch {
		case content.MessageIs(&tlsinspectorv3.TlsInspector{}):
			out.tls = true
		case content.MessageIs(&httpinspectorv3.HttpInspector{}):
			out.http = true
		default:
			out.original = t.Unpack(content, &originalv3.OriginalDst{}, place, "OriginalDst, TlsInspector or HttpInspector") || out.original
		}
	}
	return out
}

// tellsOriginal reports a listener that says, in Envoy, where its clients meant to go.
func (t *translator) tellsOriginal(l *listenerv3.Listener, path string) bool {
	return t.listenerFilters(l, path).original
}

// inspection is what is looked for in the first bytes of a listener's connections.
func (t *translator) inspection(l *listenerv3.Listener, path string) *model.Inspection {
	filters := t.listenerFilters(l, path)
	return &model.Inspection{
		TLS: filters.tls, HTTP: filters.http, Continue: l.GetContinueOnListenerFiltersTimeout(),
		Timeout: t.Duration(l.GetListenerFiltersTimeout(), defaultInspectionTime, path+".listener_filters_timeout"),
	}
}

// defaultInspectionTime is Envoy's Listener.listener_filters_timeout.
const defaultInspectionTime = 15 * time.Second
