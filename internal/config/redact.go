// SPDX-License-Identifier: Apache-2.0

package config

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/files"
)

// redactedText takes the place of a secret, as in Envoy.
const redactedText = "[redacted]"

// Redact returns a resource without the private keys and passwords in it; the same one where there are none.
func Redact(body *anypb.Any) *anypb.Any {
	if body == nil {
		return nil
	}
	m, err := body.UnmarshalNew()
	if err != nil || !redact(m.ProtoReflect()) {
		return body
	}
	out, err := anypb.New(m)
	if err != nil {
		return nil
	}
	return out
}

// redact changes a message, and reports whether there was anything to hide.
func redact(m protoreflect.Message) bool {
	switch m := m.Interface().(type) {
	case *tlsv3.TlsCertificate:
		found := false
		for _, secret := range []*corev3.DataSource{m.GetPrivateKey(), m.GetPassword(), m.GetPkcs12()} {
			found = hide(secret) || found
		}
		if files.IsText(m.GetCertificateChain().GetFilename()) { // who writes one there may write the key, too
			found = hide(m.GetCertificateChain())
		}
		return found
	case *tlsv3.GenericSecret:
		found := hide(m.GetSecret())
		for _, secret := range m.GetSecrets() {
			found = hide(secret) || found
		}
		return found
	case *tlsv3.TlsSessionTicketKeys:
		for _, key := range m.Keys {
			hide(key)
		}
		return true
	case *anypb.Any:
		inner := Redact(m)
		if inner == nil || inner == m {
			return inner == nil
		}
		proto.Reset(m)
		proto.Merge(m, inner)
		return true
	}
	found := false
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				found = redact(v.Message()) || found
				return true
			})
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				found = redact(v.List().Get(i).Message()) || found
			}
		case !fd.IsMap() && fd.Message() != nil:
			found = redact(v.Message()) || found
		}
		return true
	})
	return found
}

// hide reports whether the text is in the configuration.
func hide(d *corev3.DataSource) bool {
	switch s := d.GetSpecifier().(type) {
	case *corev3.DataSource_InlineString:
		s.InlineString = redactedText
	case *corev3.DataSource_InlineBytes:
		s.InlineBytes = []byte(redactedText)
	case *corev3.DataSource_Filename:
		if !files.IsText(s.Filename) {
			return false
		}
		s.Filename = redactedText
	default:
		return false
	}
	return true
}
