// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"errors"
	"fmt"
)

// errNotSupplied says that a secret has not come.
var errNotSupplied = errors.New("secret is not supplied by SDS")

// errName says that the certificate has none of the names that are asked for.
var errName = errors.New("certificate of the endpoint has none of match_typed_subject_alt_names")

// chainError is about the certificate's signatures and times.
func chainError(err error) error { return fmt.Errorf("certificate of the endpoint: %w", err) }
