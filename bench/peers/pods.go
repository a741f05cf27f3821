// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"net/netip"
)

// Redirected is the peer that serves pods beside Direct and XLB: an Envoy in each pod, to which rules of the pod redirect.
const Redirected = Sidecars

// podCapture is where a pod's sidecar takes what its clients send.
var podCapture = netip.AddrPortFrom(AdminAddress.Addr(), OutboundPort)

// PodsXLB is the configuration of the one XLB of a host.
func PodsXLB(services []Listener) ([]byte, error) {
	return podFile("xlb", settings{Admin: AdminAddress, Listeners: services})
}

// PodClientSidecar is the configuration of the Envoy in a pod whose clients ask services.
func PodClientSidecar(services []Listener) ([]byte, error) {
	out := settings{Admin: AdminAddress, Captures: []netip.AddrPort{podCapture}}
	for _, s := range services {
		s.Mark = markOutbound
		out.Listeners = append(out.Listeners, s)
	}
	return podFile("pod-client", out)
}

// PodServerSidecar is the configuration of the Envoy in a pod whose server listens at an address of the pod, and at the same port of its loopback.
func PodServerSidecar(server netip.AddrPort) ([]byte, error) {
	own := netip.AddrPortFrom(AdminAddress.Addr(), server.Port())
	return podFile("pod-server", settings{
		Admin:     AdminAddress,
		Captures:  []netip.AddrPort{netip.AddrPortFrom(server.Addr(), InboundPort)},
		Listeners: []Listener{{Name: "inbound", Address: server, Endpoints: []netip.AddrPort{own}, Mark: markInbound}},
	})
}

func podFile(name string, s settings) ([]byte, error) {
	return Process{Name: name, Template: "envoy.yaml.tmpl", settings: func(Site) settings { return s }}.Configuration(Site{})
}

// PodClientRules have a pod's own network stack redirect what its clients send, but not what its sidecar does, as istio-iptables has it.
func PodClientRules() string {
	return podRules("output", fmt.Sprintf("meta l4proto tcp meta mark != %d ip daddr != 127.0.0.0/8 redirect to :%d", markOutbound, OutboundPort))
}

// PodServerRules redirect what comes in for a pod's server.
func PodServerRules(port uint16) string {
	return podRules("prerouting", fmt.Sprintf("tcp dport %d redirect to :%d", port, InboundPort))
}

func podRules(hook, rule string) string {
	return fmt.Sprintf("table ip %s {\n\tchain %s {\n\t\ttype nat hook %s priority -100; policy accept;\n\t\t%s\n\t}\n}\n", MeshTable, hook, hook, rule)
}

// NoPodRules takes the rules away.
func NoPodRules() string { return "delete table ip " + MeshTable + "\n" }

// EnvoyOfPod are the arguments of a pod's Envoy. It shares no memory with a successor, as in Istio.
func EnvoyOfPod(file string, workers int) []string {
	return []string{"-c", file, "--concurrency", fmt.Sprint(workers), "--disable-hot-restart", "--log-level", "error"}
}
