// Package schema describes the JSON of Go types as schemas of OpenAPI 3.1. The tag doc of a field
// is its description.
package schema

import (
	"encoding"
	"reflect"
	"strings"
	"time"

	"github.com/neardup/neardup/client/api"
)

// Of returns the schema of the JSON of a type, a reference for a struct, and adds the schemas of
// structs to schemas, by name.
func Of(t reflect.Type, schemas map[string]any) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case t == reflect.TypeFor[api.Name]():
		return map[string]any{"type": []string{"string", "number"}}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()), t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": Of(t.Elem(), schemas)}
	case t.Kind() != reflect.Struct:
		return map[string]any{"type": "integer"}
	}
	if schemas[t.String()] == nil {
		properties, required := make(map[string]any), []string{}
		schemas[t.String()] = map[string]any{"type": "object", "properties": properties,
			"required": required}
		for _, f := range Fields(t) {
			property := Of(f.Type, schemas)
			if doc := f.Tag.Get("doc"); doc != "" {
				property["description"] = doc
			}
			properties[f.Name] = property
			if !f.Optional {
				required = append(required, f.Name)
			}
		}
		schemas[t.String()].(map[string]any)["required"] = required
	}
	return map[string]any{"$ref": "#/components/schemas/" + t.String()}
}

// Field is a field of a struct with its name in JSON.
type Field struct {
	reflect.StructField
	Name     string
	Optional bool
}

// Fields returns the fields of the JSON of a struct, embedded ones included.
func Fields(t reflect.Type) (fields []Field) {
	for f := range t.Fields() {
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !tagged:
			fields = append(fields, Fields(f.Type)...)
		case name != "-" && f.IsExported():
			fields = append(fields, Field{f, name, strings.Contains(options, "omit")})
		}
	}
	return fields
}
