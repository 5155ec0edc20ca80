// The value of this script is the verdict on a page that a page of the server sends.
(async () => {
  const url = '/v1/check?key=' + encodeURIComponent('http://new.example/fetched');
  const headers = {'Content-Type': 'text/html'};
  const answer = await fetch(url, {method: 'POST', headers, body: '<p>a page that fetch sends'});
  return (await answer.json()).verdict;
})()
