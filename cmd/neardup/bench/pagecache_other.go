//go:build !linux

package bench

import "errors"

// dropPageCache cannot be had here without privileges.
func dropPageCache(string) error { return errors.ErrUnsupported }
