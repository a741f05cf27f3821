// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"maps"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	// Types that XLB does not know are linked in to be decoded.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"

	"github.com/xlb-project/xlb/test/noeffect"
)

// noEffectKey is a field in one of the tables.
type noEffectKey struct {
	table, message, field string
	// differs: it changes what Envoy does.
	differs bool
}

// calledNoEffect are the fields that docs/fields.md says to have no effect, or to be passed over.
func calledNoEffect() []noEffectKey {
	var list []noEffectKey
	for name, table := range map[string]fieldTable{noeffect.OfFile: supported, noeffect.OfControlPlane: dynamicFields, noeffect.OfOwnCluster: controlFields, "secret": secretMembers} {
		for message, all := range table {
			for field, r := range all {
				if r.use == cosmetic {
					list = append(list, noEffectKey{name, string(message), string(field), r.differs})
				}
			}
		}
	}
	return list
}

func TestEachFieldWithoutEffectIsProved(t *testing.T) {
	rows := map[noEffectKey]bool{}
	for _, row := range noeffect.Rows {
		rows[noEffectKey{row.Table, "envoy." + row.Message, row.Field, row.Differs}] = true
	}
	called := calledNoEffect()
	for _, key := range called {
		if !rows[key] {
			t.Errorf("%v has no effect, or is passed over; prove it by a row of test/noeffect, or say there why it cannot be observed", key)
		}
		delete(rows, key)
	}
	for key := range maps.Keys(rows) {
		t.Errorf("test/noeffect has %v, which docs/fields.md does not call so: remove the row", key)
	}
}

// populated adds the full names of the fields in a message, and in those below it, to a set.
func populated(t *testing.T, m protoreflect.Message, into map[string]bool) {
	t.Helper()
	if body, isAny := m.Interface().(*anypb.Any); isAny {
		inner, err := body.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		populated(t, inner.ProtoReflect(), into)
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		into[string(fd.FullName())] = true
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				populated(t, v.Message(), into)
				return true
			})
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				populated(t, v.List().Get(i).Message(), into)
			}
		case !fd.IsMap() && !fd.IsList() && fd.Message() != nil:
			populated(t, v.Message(), into)
		}
		return true
	})
}

// A row whose value sets another field would prove nothing.
func TestRowsSetTheirFields(t *testing.T) {
	words := map[string]string{
		"host": "127.80.0.1", "port": "80", "tcphost": "127.80.0.2", "tcpport": "80", "origin": "1", "tls": "2", "nobody": "3", "dir": "/d",
	}
	for _, row := range noeffect.Rows {
		if row.Why != "" {
			continue
		}
		root, err := noeffect.Bootstrap(words, []noeffect.Row{row})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		b := &bootstrapv3.Bootstrap{}
		if err := protojson.Unmarshal(text, b); err != nil {
			t.Errorf("%s.%s: %v", row.Message, row.Field, err)
			continue
		}
		set := map[string]bool{}
		populated(t, b.ProtoReflect(), set)
		if name := "envoy." + row.Message + "." + row.Field; !set[name] {
			t.Errorf("%s is not set by %s at %s", name, row.Value, row.Place)
		}
	}
}
