// SPDX-License-Identifier: Apache-2.0

// Package explain gives an account of one request: which listener, virtual host and
// route it comes to, why the routes before that one lose, what is done with it, and
// whether the kernel does it.
//
// The account is the model's, made by the code that the slow path matches with
// (model.Trace). Beside it stands what the kernel decides: asked of the loaded maps when
// a daemon runs, of the compiled table otherwise. Both are compared; they never differ
// unless one of them is wrong.
package explain
