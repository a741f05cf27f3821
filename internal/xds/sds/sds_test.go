// SPDX-License-Identifier: Apache-2.0

package sds

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// form is one of the protocol.
type form struct{ delta, aggregated bool }

func forForms(t *testing.T, test func(t *testing.T, f form)) {
	t.Helper()
	for name, f := range map[string]form{
		"state of the world": {}, "differences": {delta: true},
		"state of the world, aggregated": {aggregated: true}, "differences, aggregated": {delta: true, aggregated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// mustBe compares a request, of which the form decides which versions it has.
func mustBe(t *testing.T, f form, got, want ask) {
	t.Helper()
	if f.delta {
		want.version = ""
	} else {
		want.known, want.dropped = nil, nil
	}
	if got.node != want.node || got.fault != want.fault || got.version != want.version {
		t.Errorf("request: got %+v, want %+v", got, want)
	}
	if !slices.Equal(got.names, want.names) || !slices.Equal(got.dropped, want.dropped) || !maps.Equal(got.known, want.known) {
		t.Errorf("request: got %+v, want %+v", got, want)
	}
}

// all are the names in an answer to a response: a difference has none, for none has changed.
func all(f form, names ...string) []string {
	if f.delta {
		return nil
	}
	return names
}

func TestSecretsAreAskedForAndAcknowledged(t *testing.T) {
	t.Parallel()
	forForms(t, func(t *testing.T, f form) {
		x := begin(t, f, "b", "a")
		s := x.accept(t)
		mustBe(t, f, s.next(t), ask{node: "me", names: []string{"a", "b"}})
		mustBe(t, f, s.tell(t, answer{version: "1", nonce: "n1", secrets: map[string]string{"a": "A", "b": "B"}}), ask{names: all(f, "a", "b"), version: "1"})
		x.mustHaveTaken(t, taken{"a", "A", "1"}, taken{"b", "B", "1"})
		mustBe(t, f, s.tell(t, answer{version: "2", nonce: "n2", secrets: map[string]string{"a": "A2"}}), ask{names: all(f, "a", "b"), version: "2"})
		x.mustHaveTaken(t, taken{"a", "A2", "2"})
	})
}

func TestRefusalsHaveAReasonAndTheVersionBefore(t *testing.T) {
	t.Parallel()
	forForms(t, func(t *testing.T, f form) {
		x, s := beginAsked(t, f, "a", "b")
		s.tell(t, answer{version: "1", nonce: "n1", secrets: map[string]string{"a": "A", "b": "B"}})
		x.mustHaveTaken(t, taken{"a", "A", "1"}, taken{"b", "B", "1"})
		reply := s.tell(t, answer{version: "2", nonce: "n2", secrets: map[string]string{"a": bad, "b": "B2"}})
		mustBe(t, f, reply, ask{names: all(f, "a", "b"), version: "1", fault: "a: " + why})
		x.mustHaveTaken(t, taken{"b", "B2", "2"})
		mustBe(t, f, s.tell(t, answer{version: "3", nonce: "n3", secrets: map[string]string{"a": "A3"}}), ask{names: all(f, "a", "b"), version: "3"})
		x.mustHaveTaken(t, taken{"a", "A3", "3"})
	})
}

func TestANewStreamBeginsWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	forForms(t, func(t *testing.T, f form) {
		x, s := beginAsked(t, f, "a", "b")
		s.tell(t, answer{version: "1", nonce: "n1", secrets: map[string]string{"a": "A"}})
		s.tell(t, answer{version: "2", nonce: "n2", secrets: map[string]string{"a": bad}})
		close(s.end)
		s = x.accept(t)
		first := s.next(t)
		mustBe(t, f, first, ask{node: "me", names: []string{"a", "b"}, version: "1", known: map[string]string{"a": "1"}})
		if first.nonce != "" {
			t.Errorf("the first request has the nonce %q of another stream", first.nonce)
		}
		mustBe(t, f, s.tell(t, answer{version: "3", nonce: "n1", secrets: map[string]string{"b": "B"}}), ask{names: all(f, "a", "b"), version: "3"})
		x.mustHaveTaken(t, taken{"a", "A", "1"}, taken{"b", "B", "3"})
	})
}

// What was taken stays, as in Envoy.
func TestRemovedSecretsStay(t *testing.T) {
	t.Parallel()
	forForms(t, func(t *testing.T, f form) {
		x, s := beginAsked(t, f, "a")
		s.tell(t, answer{version: "1", nonce: "n1", secrets: map[string]string{"a": "A"}})
		x.mustHaveTaken(t, taken{"a", "A", "1"})
		mustBe(t, f, s.tell(t, answer{version: "2", nonce: "n2", removed: []string{"a"}}), ask{names: all(f, "a"), version: "2"})
		x.mustHaveTaken(t)
	})
}

func TestSecretsThatNobodyAskedForAreLeft(t *testing.T) {
	t.Parallel()
	forForms(t, func(t *testing.T, f form) {
		x, s := beginAsked(t, f, "a")
		reply := s.tell(t, answer{version: "1", nonce: "n1", secrets: map[string]string{"other": "O"}})
		if refused := strings.Contains(reply.fault, `none of the secrets in it is asked for, which are ["a"]`); refused == f.delta {
			t.Errorf("refused with %q", reply.fault)
		}
		mustBe(t, f, s.tell(t, answer{version: "2", nonce: "n2", secrets: map[string]string{"a": "A", "other": bad}}), ask{names: all(f, "a"), version: "2"})
		x.mustHaveTaken(t, taken{"a", "A", "2"})
	})
}

func TestServersThatCloseAtOnceAreAskedAgain(t *testing.T) {
	t.Parallel()
	forForms(t, func(t *testing.T, f form) {
		x := begin(t, f, "a")
		for range 3 {
			close(x.accept(t).end)
		}
		s := x.accept(t)
		mustBe(t, f, s.next(t), ask{node: "me", names: []string{"a"}})
		s.tell(t, answer{version: "1", nonce: "n1", secrets: map[string]string{"a": "A"}})
		x.mustHaveTaken(t, taken{"a", "A", "1"})
	})
}

// A server that sees its own version might not send again what was forgotten meanwhile.
func TestOtherNamesAreAskedForAnew(t *testing.T) {
	t.Parallel()
	forForms(t, func(t *testing.T, f form) {
		x, s := beginAsked(t, f, "a", "b")
		s.tell(t, answer{version: "1", nonce: "n1", secrets: map[string]string{"a": "A", "b": "B"}})
		x.mustHaveTaken(t, taken{"a", "A", "1"}, taken{"b", "B", "1"})
		x.client.Want([]string{"c", "b"})
		if f.delta {
			mustBe(t, f, s.next(t), ask{names: []string{"c"}, dropped: []string{"a"}})
		} else {
			mustBe(t, f, s.next(t), ask{names: []string{"b", "c"}})
		}
		mustBe(t, f, s.tell(t, answer{version: "2", nonce: "n2", secrets: map[string]string{"a": "A", "c": "C"}}), ask{names: all(f, "b", "c"), version: "2"})
		x.mustHaveTaken(t, taken{"c", "C", "2"})
		close(s.end)
		mustBe(t, f, x.accept(t).next(t), ask{node: "me", names: []string{"b", "c"}, version: "2", known: map[string]string{"b": "1", "c": "2"}})
	})
}
