package server

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/cmd/neardup/internal/schema"
	"github.com/neardup/neardup/internal/wire"
)

type object = map[string]any

// openAPI returns the OpenAPI document of the calls.
var openAPI = sync.OnceValue(func() []byte {
	schemas := make(object)
	paths := make(map[string]object)
	for _, c := range calls {
		operation := object{"operationId": c.name, "summary": c.summary,
			"responses": responses(&c, schemas)}
		var parameters []object
		for _, p := range c.parameters {
			parameters = append(parameters, object{"name": p.name, "in": "query",
				"required": p.required, "description": p.doc, "schema": object{"type": "string"}})
		}
		if parameters != nil {
			operation["parameters"] = parameters
		}
		if c.body != nil {
			one := schema.Of(reflect.TypeOf(c.body), schemas)
			content := object{"application/json": object{"schema": one}}
			if c.hasDocuments() {
				page := object{"schema": object{"type": "string", "format": "binary"}}
				content = object{"application/json": object{"schema": oneOrMany(one)},
					api.JSONLines: object{"schema": one}, "text/html": page, "text/plain": page}
			}
			operation["requestBody"] = object{"required": true, "content": content,
				"description": "Content-Encoding: gzip is accepted."}
		}
		if paths[c.path] == nil {
			paths[c.path] = make(object)
		}
		paths[c.path][strings.ToLower(c.method)] = operation
	}
	text, err := wire.Encode(object{
		"openapi": "3.1.0",
		"info": object{"title": "neardup serve", "version": "1",
			"description": "HTTP API of an index of near-duplicates."},
		"security": []object{{"token": []string{}}, {}},
		"paths":    paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	})
	if err != nil {
		panic(err) // its parts are plain values
	}
	return text
})

// hasDocuments reports whether the body of a call is documents, each of which is answered.
func (c *call) hasDocuments() bool {
	return reflect.TypeOf(c.body) == reflect.TypeFor[api.Document]()
}

func oneOrMany(one object) object {
	return object{"anyOf": []object{one, {"type": "array", "items": one}}}
}

func responses(c *call, schemas object) object {
	failure := schema.Of(reflect.TypeFor[api.Failure](), schemas)
	failed := object{"description": "Error",
		"content": object{"application/json": object{"schema": failure}}}
	one := schema.Of(reflect.TypeOf(c.answer), schemas)
	content := object{"application/json": object{"schema": one}}
	if c.hasDocuments() {
		one = object{"anyOf": []object{one, failure}}
		content = object{"application/json": object{"schema": oneOrMany(one)},
			api.JSONLines: object{"schema": one}}
	}
	return object{strconv.Itoa(c.status): object{"description": "Success", "content": content},
		"4XX": failed, "5XX": failed}
}
