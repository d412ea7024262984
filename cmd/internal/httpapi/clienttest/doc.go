// Package clienttest holds a client that oapi-codegen has made of the HTTP API's
// OpenAPI document, and runs the main calls with it against a whole server.
//
// openapi.yaml is the document as it is served; a test keeps it so, and rewrites it
// when it is run with -update. Authoritative is package httpapi. After a change:
//
//	go test ./cmd/internal/httpapi/clienttest -run TestTheDocumentIsTheOneServed -update
//	go generate ./cmd/internal/httpapi/clienttest
//
// The package exists for tests only, and the client is compiled for them only.
package clienttest

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml openapi.yaml
