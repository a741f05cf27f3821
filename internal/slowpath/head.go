// SPDX-License-Identifier: Apache-2.0

package slowpath

import "github.com/xlb-project/xlb/internal/head"

// field is one header field.
type field = head.Field

// refusals are the local replies to heads that must not pass.
var refusals = map[head.Kind]LocalReply{head.Malformed: ReplyBadRequest, head.TooLarge: ReplyHeadTooLarge, head.NotImplemented: ReplyNotImplemented}

// parseHead validates a complete head, empty line included. It returns the local reply for one that must not pass.
func parseHead(raw []byte, maxFields int) (head.Head, LocalReply) {
	h, refusal := head.Parse(raw, maxFields)
	if refusal == nil {
		return h, noReply
	}
	return h, refusals[refusal.Kind]
}
