// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/problem"
)

// ofAddress are fields of a listener that belong to its address, which the twin's has not.
var ofAddress = map[string]bool{
	"address": true, "additional_addresses": true, "bind_to_port": true, "deprecated_v1": true, "use_original_dst": true, "freebind": true, "transparent": true, "socket_options": true,
	"tcp_fast_open_queue_length": true, "reuse_port": true, "enable_reuse_port": true, "enable_mptcp": true,
}

// listeners puts each listener at a socket.
func (m *maker) listeners(path string, list []any) []any {
	twins := make([]any, 0, len(list))
	for i, value := range list {
		at := problem.At(path, i)
		listener, ok := value.(map[string]any)
		switch {
		case !ok:
			twins = append(twins, value) // Envoy says what is wrong
		case isUDP(listener):
			m.leave(at, "listens at UDP, and a delegate at Unix sockets")
		case has(listener, "internal_listener") || has(listener, "api_listener"):
			twins = append(twins, m.value(at, "", listener))
		default:
			twins = append(twins, m.listener(at, i, listener))
		}
	}
	return twins
}

// listener is one at a socket.
func (m *maker) listener(path string, i int, listener map[string]any) map[string]any {
	socket := fmt.Sprintf("%s/l%d.sock", Own, i)
	twin := make(map[string]any, len(listener))
	for _, key := range sorted(listener) {
		if name := snake(key); !ofAddress[name] {
			twin[key] = m.value(problem.Field(path, key), name, listener[key])
		}
	}
	twin["address"] = pipe(socket)
	name, _ := field(listener, "name").(string)
	m.twin.Listeners = append(m.twin.Listeners, Listener{Name: name, Socket: socket})
	return twin
}

// pipe is an address.
func pipe(path string) map[string]any { return map[string]any{"pipe": map[string]any{"path": path}} }

// isUDP reports a listener at a UDP port.
func isUDP(listener map[string]any) bool {
	address, _ := field(listener, "address").(map[string]any)
	socket, _ := field(address, "socket_address").(map[string]any)
	return has(listener, "udp_listener_config") || field(socket, "protocol") == "UDP"
}
