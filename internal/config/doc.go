// SPDX-License-Identifier: Apache-2.0

// Package config reads an Envoy v3 bootstrap and translates it into a model.
//
// The rule is: a file that runs in Envoy means the same here, or it is refused
// with the path of the field and the reason. No populated field is passed over
// silently. A file goes through four steps, and every step reports all the
// problems it finds:
//
//   - decode:    YAML or JSON into Envoy's own message types, strictly (document/);
//   - support:   every populated field is looked up in one table (schema/),
//     and whatever is not in it is refused;
//   - validate:  Envoy's own constraints (protoc-gen-validate);
//   - translate: into the model, with the rules that span several fields:
//     clusters (clusters/), listeners (listeners/), their connection managers
//     with the routes (routes/), values that many messages have in common
//     (values/), and what they say of header fields (headers/).
//
// This package puts the parts together: it has the rules that span several
// clusters and listeners, where resources come from that are not in the file,
// and what is taken over from one configuration to the next.
package config
