// Package hugepages asks the operating system to map memory in large pages. With small
// pages, random reads of large memory spend most of their time on address translation. The
// request is only a hint.
package hugepages
