// The value of this script is the list of accessibility faults of a page, such as fields without a
// label and text with too little contrast.
(() => {
  const wrong = [];
  const all = s => [...document.querySelectorAll(s)];
  if (all('h1').length !== 1) wrong.push(all('h1').length + ' h1');
  let level = 1;
  for (const h of all('h2,h3,h4')) { const n = +h.tagName[1]; if (n > level + 1) wrong.push('heading jumps: ' + h.textContent); level = n; }
  for (const t of all('table')) if (!t.caption || !t.caption.textContent.trim()) wrong.push('table without a caption');
  for (const i of all('input,textarea')) if (!i.labels.length) wrong.push('field without a label: ' + i.name);
  for (const s of all('svg')) if (s.getAttribute('aria-hidden') !== 'true' && !s.getAttribute('aria-label')) wrong.push('picture without words');
  for (const s of all('script,img,iframe,object,embed')) wrong.push('element ' + s.tagName);
  if (!document.title || !document.documentElement.lang) wrong.push('no title or language');
  const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const light = ([r, g, b]) => [r, g, b].map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const seen = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || seen.has(e) || !e.checkVisibility()) continue;
    seen.add(e);
    const style = getComputedStyle(e);
    let back = [255, 255, 255, 1];
    for (let p = e; p; p = p.parentElement) { const c = rgb(getComputedStyle(p).backgroundColor); if (c[3] > 0) { back = c; break; } }
    const a = light(rgb(e.closest('svg') ? style.fill : style.color)), b = light(back);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) wrong.push('contrast ' + ratio.toFixed(2) + ': ' + e.textContent.slice(0, 40));
  }
  return wrong;
})()
