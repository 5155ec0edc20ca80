// Package hugepages asks the operating system to map memory in large pages. With small
// pages, random reads in large memory spend most of their time on address translation. The
// operating system can ignore the request.
package hugepages
