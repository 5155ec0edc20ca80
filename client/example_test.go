package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/neardup/neardup/client"
)

// A client has the methods of an index in the same process.
func ExampleClient_Check() {
	ctx := context.Background()
	x, err := client.Open(ctx, "http://127.0.0.1:7490", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	v, err := x.Check(ctx, client.Page{URL: "http://a.example/", ContentType: "text/html",
		Body: []byte("<p>The ferry leaves at nine.")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.Status)
}
