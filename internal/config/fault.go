// SPDX-License-Identifier: Apache-2.0

package config

import (
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// defaultFaultBody is Envoy's answer to an aborted request.
const defaultFaultBody = "fault filter abort"

// fault translates one filter's configuration; nil is one that never has an effect, as that of an empty filter.
func (t *translator) fault(in *faultv3.HTTPFault, path string) *model.Fault {
	out := &model.Fault{Cluster: in.GetUpstreamCluster(), Headers: t.headerMatches(in.GetHeaders(), path+".headers")}
	if d := in.GetDelay(); d != nil {
		out.Delay = t.duration(d.GetFixedDelay(), 0, path+".delay.fixed_delay")
		out.DelayShare = fraction(d.GetPercentage())
	}
	if a := in.GetAbort(); a != nil {
		out.Status, out.Body = int(a.GetHttpStatus()), a.GetResponseBody()
		out.AbortShare = fraction(a.GetPercentage())
		if out.Body == "" {
			out.Body = defaultFaultBody
		}
	}
	if out.DelayShare.Never() || out.Delay == 0 {
		out.Delay, out.DelayShare = 0, model.Fraction{}
	}
	if out.AbortShare.Never() {
		out.Status, out.Body, out.AbortShare = 0, "", model.Fraction{}
	}
	if out.Delay == 0 && out.Status == 0 {
		return nil
	}
	return out
}
