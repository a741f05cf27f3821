// SPDX-License-Identifier: Apache-2.0

// Package nri asks a container runtime, by its Node Resource Interface (NRI), for the pods that there are and that come. It is a plugin that observes: it
// changes no container, and never has the runtime fail a request.
//
// A Client has one connection at a time (session.go) and makes another one when that ends. What the runtime reports goes through one queue (queue.go), so
// that each call of Pods has returned before the next begins, in the runtime's order, also where the runtime has not been kept waiting for it.
package nri
