// SPDX-License-Identifier: Apache-2.0

package schema

// Note is about a field that is accepted although XLB does not do what it says: it changes no answer, and whoever wrote it should know.
type Note struct {
	// Resource is "listener NAME" and the like; empty: the bootstrap.
	Resource string `json:"resource,omitempty"`
	// Path of the field in the resource.
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// noted is for a field of which somebody should hear that it is passed over.
func noted(why string) rule { return rule{use: cosmetic, reason: why, noted: true} }

// andNoted is for a limited field, likewise, where it is allowed.
func andNoted(r rule, why string) rule {
	r.noted, r.note = true, why
	return r
}

// notice is the text for operators.
func (r rule) notice() string {
	if r.note != "" {
		return r.note
	}
	return r.reason
}
