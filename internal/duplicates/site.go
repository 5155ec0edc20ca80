package duplicates

import "strings"

// SameSite reports whether two keys are URLs with the same host.
func SameSite(a, b string) bool {
	host := Host(a)
	return host != "" && host == Host(b)
}

// Host returns the host of a key that is a URL, in lower case and without user, port and final dot.
// It returns "" if the key has no host. It does not use net/url, which refuses many URLs of crawls.
func Host(key string) string {
	scheme, rest, found := strings.Cut(key, "://")
	if !found || scheme == "" || strings.ContainsAny(scheme, "/?# ") {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if strings.HasPrefix(rest, "[") { // an IPv6 address
		address, _, closed := strings.Cut(rest, "]")
		if !closed {
			return ""
		}
		return strings.ToLower(address) + "]"
	}
	host, _, _ := strings.Cut(rest, ":")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
