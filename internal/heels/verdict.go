// SPDX-License-Identifier: Apache-2.0

package heels

import "fmt"

// verdictCount is how many verdicts there are.
const verdictCount = int(abiHeelsVerdictHEELS_VERDICTS)

// verdictNames are the labels of verdicts in metrics and in the status.
var verdictNames = [verdictCount]string{
	abiHeelsVerdictHEELS_OK:                  "ok",
	abiHeelsVerdictHEELS_OFFERED:             "offered",
	abiHeelsVerdictHEELS_OFFER_DRAINING:      "offer_draining",
	abiHeelsVerdictHEELS_OFFER_BACK_OFF:      "offer_back_off",
	abiHeelsVerdictHEELS_OFFER_NO_ROOM:       "offer_no_room",
	abiHeelsVerdictHEELS_OFFER_REPEATED:      "offer_repeated",
	abiHeelsVerdictHEELS_OFFER_NO_MEMORY:     "offer_no_memory",
	abiHeelsVerdictHEELS_OFFER_INTERFACE:     "offer_interface",
	abiHeelsVerdictHEELS_DIRECT:              "direct",
	abiHeelsVerdictHEELS_ANSWER_NONE:         "answer_none",
	abiHeelsVerdictHEELS_ANSWER_MALFORMED:    "answer_malformed",
	abiHeelsVerdictHEELS_ANSWER_BACKEND:      "answer_backend",
	abiHeelsVerdictHEELS_ANSWER_TAG:          "answer_tag",
	abiHeelsVerdictHEELS_DIRECT_FAILED:       "direct_failed",
	abiHeelsVerdictHEELS_FALLBACK_FAILED:     "fallback_failed",
	abiHeelsVerdictHEELS_CLIENT_CLOSING:      "client_closing",
	abiHeelsVerdictHEELS_CLIENT_RESET:        "client_reset",
	abiHeelsVerdictHEELS_CLIENT_ICMP:         "client_icmp",
	abiHeelsVerdictHEELS_CLIENT_ROUTED:       "client_routed",
	abiHeelsVerdictHEELS_COMMITTED:           "committed",
	abiHeelsVerdictHEELS_DECLINE_DRAINING:    "decline_draining",
	abiHeelsVerdictHEELS_DECLINE_MALFORMED:   "decline_malformed",
	abiHeelsVerdictHEELS_DECLINE_VIP:         "decline_vip",
	abiHeelsVerdictHEELS_DECLINE_PATH:        "decline_path",
	abiHeelsVerdictHEELS_DECLINE_BALANCER:    "decline_balancer",
	abiHeelsVerdictHEELS_DECLINE_CLIENT:      "decline_client",
	abiHeelsVerdictHEELS_DECLINE_TAG:         "decline_tag",
	abiHeelsVerdictHEELS_DECLINE_FAST_OPEN:   "decline_fast_open",
	abiHeelsVerdictHEELS_DECLINE_MPTCP:       "decline_mptcp",
	abiHeelsVerdictHEELS_DECLINE_SIGNED:      "decline_signed",
	abiHeelsVerdictHEELS_DECLINE_COLLISION:   "decline_collision",
	abiHeelsVerdictHEELS_DECLINE_NO_LISTENER: "decline_no_listener",
	abiHeelsVerdictHEELS_DECLINE_LISTENER:    "decline_listener",
	abiHeelsVerdictHEELS_DECLINE_EXTENSION:   "decline_extension",
	abiHeelsVerdictHEELS_DECLINE_PORT:        "decline_port",
	abiHeelsVerdictHEELS_DECLINE_AGENT:       "decline_agent",
	abiHeelsVerdictHEELS_DECLINE_INTERFACE:   "decline_interface",
	abiHeelsVerdictHEELS_DECLINE_GUESSED:     "decline_guessed",
	abiHeelsVerdictHEELS_DECLINE_ROUTE:       "decline_route",
	abiHeelsVerdictHEELS_DECLINE_REPLAYED:    "decline_replayed",
	abiHeelsVerdictHEELS_ANSWERED:            "answered",
	abiHeelsVerdictHEELS_ANSWERED_COOKIE:     "answered_cookie",
	abiHeelsVerdictHEELS_ANSWER_NO_ROOM:      "answer_no_room",
	abiHeelsVerdictHEELS_ANSWER_UNKNOWN_VIP:  "answer_unknown_vip",
	abiHeelsVerdictHEELS_ACCEPTED:            "accepted",
	abiHeelsVerdictHEELS_ACCEPTED_COOKIE:     "accepted_cookie",
	abiHeelsVerdictHEELS_ACCEPT_NO_MEMORY:    "accept_no_memory",
	abiHeelsVerdictHEELS_LISTENER_READY:      "listener_ready",
	abiHeelsVerdictHEELS_LISTENER_REFUSED:    "listener_refused",
	abiHeelsVerdictHEELS_DECAPSULATED:        "decapsulated",
	abiHeelsVerdictHEELS_DECAPSULATED_DETOUR: "decapsulated_detour",
	abiHeelsVerdictHEELS_DECAPSULATE_REFUSED: "decapsulate_refused",
	abiHeelsVerdictHEELS_DECAPSULATE_FAILED:  "decapsulate_failed",
	abiHeelsVerdictHEELS_SERVER_CLOSING:      "server_closing",
	abiHeelsVerdictHEELS_SERVER_ICMP:         "server_icmp",
	abiHeelsVerdictHEELS_REWRITE_FAILED:      "rewrite_failed",
	abiHeelsVerdictHEELS_CONFIRM_WAITING:     "confirm_waiting",
	abiHeelsVerdictHEELS_CONFIRM_SWITCHED:    "confirm_switched",
	abiHeelsVerdictHEELS_CONFIRM_RETURNED:    "confirm_returned",
	abiHeelsVerdictHEELS_CONFIRM_SHARED:      "confirm_shared",
	abiHeelsVerdictHEELS_CONFIRM_TAKEN:       "confirm_taken",
	abiHeelsVerdictHEELS_CONFIRM_ANSWERED:    "confirm_answered",
	abiHeelsVerdictHEELS_CONFIRM_COOKIE:      "confirm_cookie",
	abiHeelsVerdictHEELS_CONFIRM_ACCEPTED:    "confirm_accepted",
	abiHeelsVerdictHEELS_CONFIRM_HEARD:       "confirm_heard",
	abiHeelsVerdictHEELS_CONFIRM_BACK:        "confirm_back",
	abiHeelsVerdictHEELS_CONFIRM_CLOSING:     "confirm_closing",
	abiHeelsVerdictHEELS_CONFIRM_ROUTED:      "confirm_routed",
	abiHeelsVerdictHEELS_CONFIRM_UNTOLD:      "confirm_untold",
	abiHeelsVerdictHEELS_CONFIRM_CHALLENGED:  "confirm_challenged",
	abiHeelsVerdictHEELS_CONFIRM_YIELDED:     "confirm_yielded",
}

// Verdicts returns how often each verdict was given since the pins were made, over all CPUs, by name.
func (k *Kernel) Verdicts() (map[string]uint64, error) {
	counts := make(map[string]uint64, verdictCount)
	for v := 1; v < verdictCount; v++ {
		n, err := k.verdict(abiHeelsVerdict(v))
		if err != nil {
			return nil, err
		}
		counts[verdictNames[v]] = n
	}
	return counts, nil
}

// verdict returns how often one was given.
func (k *Kernel) verdict(v abiHeelsVerdict) (n uint64, err error) {
	var perCPU []uint64
	if err := k.maps.HeelsVerdicts.Lookup(uint32(v), &perCPU); err != nil {
		return 0, fmt.Errorf("read verdict counters: %w", err)
	}
	for _, each := range perCPU {
		n += each
	}
	return n, nil
}
