package duplicates

import "strings"

// SameSite reports whether two keys are URLs with the same host. Letter case and the port do not
// count.
func SameSite(a, b string) bool {
	host := hostOf(a)
	return host != "" && strings.EqualFold(host, hostOf(b))
}

// hostOf returns the host of a URL. It returns "" for any other key.
func hostOf(key string) string {
	scheme, rest, found := strings.Cut(key, "://")
	if !found || scheme == "" || strings.ContainsAny(scheme, "/?# ") {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if end := strings.IndexByte(rest, ']'); end >= 0 { // an IPv6 address
		return rest[:end+1]
	}
	host, _, _ := strings.Cut(rest, ":")
	return strings.TrimSuffix(host, ".")
}
