package server

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/neardup/neardup/client/api"
)

type object = map[string]any

// generatedOpenAPI returns the OpenAPI document of the calls.
func generatedOpenAPI() []byte {
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
			one := schemaOf(reflect.TypeOf(c.body), schemas)
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
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "neardup serve", "version": "1",
			"description": "HTTP API of an index of near-duplicates."},
		"security": []object{{"token": []string{}}, {}},
		"paths":    paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}, "", "\t")
	if err != nil {
		panic(err) // its parts are plain values
	}
	return append(text, '\n')
}

// hasDocuments reports whether the body of a call is documents, each of which is answered.
func (c *call) hasDocuments() bool {
	return reflect.TypeOf(c.body) == reflect.TypeFor[api.Document]()
}

func oneOrMany(one object) object {
	return object{"anyOf": []object{one, {"type": "array", "items": one}}}
}

func responses(c *call, schemas object) object {
	failure := schemaOf(reflect.TypeFor[api.Failure](), schemas)
	failed := object{"description": "Error",
		"content": object{"application/json": object{"schema": failure}}}
	one := schemaOf(reflect.TypeOf(c.answer), schemas)
	content := object{"application/json": object{"schema": one}}
	if c.hasDocuments() {
		one = object{"anyOf": []object{one, failure}}
		content = object{"application/json": object{"schema": oneOrMany(one)},
			api.JSONLines: object{"schema": one}}
	}
	return object{strconv.Itoa(c.status): object{"description": "Success", "content": content},
		"4XX": failed, "5XX": failed}
}

// schemaOf returns the schema of the JSON of a type, a reference for a struct, and adds the schemas
// of structs to schemas, by name.
func schemaOf(t reflect.Type, schemas object) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	case t == reflect.TypeFor[api.Name]():
		return object{"type": []string{"string", "number"}}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()), t.Kind() == reflect.String:
		return object{"type": "string"}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return object{"type": "number"}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case t.Kind() != reflect.Struct:
		return object{"type": "integer"}
	}
	if schemas[t.String()] == nil {
		properties, required := make(object), []string{}
		schema := object{"type": "object", "properties": properties}
		schemas[t.String()] = schema
		for _, f := range fieldsOf(t) {
			property := schemaOf(f.Type, schemas)
			if doc := f.Tag.Get("doc"); doc != "" {
				property["description"] = doc
			}
			properties[f.Name] = property
			if !f.Optional {
				required = append(required, f.Name)
			}
		}
		schema["required"] = required
	}
	return object{"$ref": "#/components/schemas/" + t.String()}
}

// field is a field of a struct with its name in JSON.
type field struct {
	reflect.StructField
	Name     string
	Optional bool
}

// fieldsOf returns the fields of the JSON of a struct, embedded ones included.
func fieldsOf(t reflect.Type) (fields []field) {
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if f.IsExported() && name != "-" && (tagged || !f.Anonymous) {
			fields = append(fields, field{f, name, strings.Contains(options, "omit")})
		}
	}
	return fields
}
