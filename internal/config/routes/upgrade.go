// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// upgrades says of each upgrade type, in lower case, whether it is enabled.
type upgrades map[string]bool

// upgradeConfig is what the connection manager's and a route's UpgradeConfig
// have in common.
type upgradeConfig interface {
	GetUpgradeType() string
	GetEnabled() *wrapperspb.BoolValue
}

// upgradesOf reads one list of upgrade_configs.
func upgradesOf[T upgradeConfig](t *translator, in []T, path string) upgrades {
	out := upgrades{}
	for i, c := range in {
		typePath := problem.At(path, i) + ".upgrade_type"
		name := ascii.Lower(c.GetUpgradeType())
		_, twice := out[name]
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			t.p.Add(typePath, "%q: write one protocol, such as websocket, or CONNECT", c.GetUpgradeType())
		case name == "connect-udp":
			t.p.Add(typePath, "not supported: XLB balances TCP; remove the entry")
		case twice:
			t.p.Add(typePath, "%q is already in the list; keep one", c.GetUpgradeType())
		}
		out[name] = c.GetEnabled() == nil || c.GetEnabled().GetValue()
	}
	return out
}

// routeUpgrades gives a route its upgrades: what it says itself goes before
// what the connection manager says.
func (t *translator) routeUpgrades(out *model.Route, action *routev3.RouteAction, manager upgrades, path string) {
	in := action.GetUpgradeConfigs()
	all := maps.Clone(manager)
	maps.Copy(all, upgradesOf(t, in, path))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] {
			out.Upgrades = append(out.Upgrades, name)
		}
	}
	for i, c := range in {
		if c.GetConnectConfig() == nil {
			continue
		}
		if ascii.Lower(c.GetUpgradeType()) != model.UpgradeConnect {
			t.p.Add(problem.At(path, i)+".connect_config", "belongs to upgrade_type CONNECT; remove the field")
		}
		out.TerminateConnect = true
	}
}
