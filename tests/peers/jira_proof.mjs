// Drives the simulator with jira.js, a client we did not write.
// Usage: node jira_proof.mjs NODE_MODULES BASE_URL TOKEN. Prints one JSON object with what it got.
import { createRequire } from 'node:module';

const [modules, host, token] = process.argv.slice(2);
const { Version3Client } = createRequire(`${modules}/`)('jira.js');
const client = new Version3Client({
  host,
  authentication: { basic: { email: 'bot@contoso.example', apiToken: token } },
});

const refused = async call => {
  try {
    await call();
  } catch (error) {
    const answer = error.response ?? error;
    return [answer.status ?? error.status ?? error.statusCode, JSON.stringify(answer.data ?? answer)];
  }
  throw new Error('this should have been refused');
};

const jql = 'project = PARCEL AND updated >= 946684800000 ORDER BY updated ASC, key ASC';
const keys = [];
const types = new Set();
let nextPageToken;
let pages = 0;
do {
  const page = await client.issueSearch.searchForIssuesUsingJqlEnhancedSearchPost({
    jql, maxResults: 10, fields: ['summary', 'updated', 'description'], nextPageToken,
  });
  pages += 1;
  for (const issue of page.issues) {
    keys.push(issue.key);
    types.add(issue.fields.description?.type ?? null);
  }
  nextPageToken = page.nextPageToken;
} while (nextPageToken);

const unbounded = await refused(() =>
  client.issueSearch.searchForIssuesUsingJqlEnhancedSearchPost({ jql: '' }));
const badToken = await refused(() =>
  client.issueSearch.searchForIssuesUsingJqlEnhancedSearchPost({ jql, nextPageToken: 'nonsense' }));
const bulk = await client.issues.bulkFetchIssues({
  issueIdsOrKeys: ['PARCEL-1', 'PARCEL-2', 'PARCEL-9999'], fields: ['summary', 'status'],
});
const document = {
  type: 'doc', version: 1,
  content: [{ type: 'paragraph', content: [{ type: 'text', text: 'from jira.js' }] }],
};
const comment = await client.issueComments.addComment({ issueIdOrKey: 'PARCEL-2', comment: document });
const comments = await client.issueComments.getComments({ issueIdOrKey: 'PARCEL-2', orderBy: '-created' });
await client.issues.editIssue({
  issueIdOrKey: 'PARCEL-2', update: { labels: [{ add: 'seen-by-js' }] },
});
const issue = await client.issues.getIssue({ issueIdOrKey: 'PARCEL-2', fields: ['labels', 'comment'] });
const me = await client.myself.getCurrentUser();

console.log(JSON.stringify({
  keys, pages, types: [...types], unbounded, badToken,
  bulk: bulk.issues.map(one => one.key), missing: (bulk.issueErrors ?? []).length,
  comment: comment.body?.content?.[0]?.content?.[0]?.text, total: comments.total,
  labels: issue.fields.labels, me: me.displayName,
}));
