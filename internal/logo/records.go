package logo

import (
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	logos = storage.NewTable[logoRecord]("logo")      // web.LogoKey of the owner
	files = storage.NewTable[fileRecord]("logo_file") // likewise
)

// logoRecord describes a picture. It is apart from the content, which lists do not need.
type logoRecord struct {
	ID     string `cbor:"1,keyasint"` // of the owner
	Name   string `cbor:"2,keyasint"`
	Type   string `cbor:"3,keyasint"`
	Width  int    `cbor:"4,keyasint"`
	Height int    `cbor:"5,keyasint"`
}

func (r *logoRecord) logo() *web.Logo {
	return &web.Logo{Name: r.Name, Type: r.Type, Width: r.Width, Height: r.Height}
}

// fileRecord is a picture as pages serve it.
type fileRecord struct {
	Name    string `cbor:"1,keyasint"`
	Type    string `cbor:"2,keyasint"`
	Content []byte `cbor:"3,keyasint"`
}
